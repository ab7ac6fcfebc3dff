"""The hooks of a ConfigCopy: customize names the ConfigMap that is copied, sync copies it."""

import json
import sys
import traceback

# Who may create a ConfigCopy could read any ConfigMap with it: its owner has to allow that.
ALLOW = "example.com/may-be-copied"


def customize(request):
    spec = request["parent"]["spec"]
    rule = {"apiVersion": "v1", "resource": "configmaps", "namespace": spec["namespace"], "names": [spec["name"]]}
    return {"relatedResources": [rule]}


def sync(request):
    parent = request["parent"]
    spec = parent["spec"]
    source = request["related"]["ConfigMap.v1"].get(f"{spec['namespace']}/{spec['name']}")
    if source is None:
        return {"status": {"state": "Missing"}, "children": []}
    if source["metadata"].get("labels", {}).get(ALLOW) != "true":
        return {"status": {"state": "NotAllowed"}, "children": []}
    copy = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": parent["metadata"]["name"]},
        "data": source.get("data", {}),
    }
    return {"status": {"state": "Copied"}, "children": [copy]}


# A request in each line, answered by one line with the id of the request. Logs go to stderr.
for line in sys.stdin:
    request = json.loads(line)
    try:
        answer = {"sync": sync, "customize": customize}[request["hook"]](request)
    except Exception as e:  # the next request may be fine
        traceback.print_exc()
        answer = {"error": repr(e)}
    print(json.dumps({"id": request["id"], **answer}), flush=True)
