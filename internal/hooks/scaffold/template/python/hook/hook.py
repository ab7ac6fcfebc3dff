"""The sync hook: gets a {{Kind}} with its children, and answers with the children and the status that it wants."""

import json
import sys
import traceback


def sync(request):
    parent = request["parent"]
    meta, spec = parent["metadata"], parent["spec"]
    name, labels = meta["name"], {"app": meta["name"]}
    port, replicas = spec.get("port", 80), spec.get("replicas", 1)
    deployment = request["children"]["Deployment.apps/v1"].get(f"{meta['namespace']}/{name}", {})
    ready = deployment.get("status", {}).get("readyReplicas", 0)
    return {
        "status": {
            "ready": f"{ready}/{replicas}",
            "state": "Ready" if ready == replicas else "Progressing",
            "readyReplicas": ready,
        },
        "children": [
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": name},
                "spec": {
                    "replicas": replicas,
                    "selector": {"matchLabels": labels},
                    "template": {
                        "metadata": {"labels": labels},
                        "spec": {
                            "containers": [
                                {"name": "main", "image": spec["image"], "ports": [{"containerPort": port}]}
                            ]
                        },
                    },
                },
            },
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": name},
                "spec": {"selector": labels, "ports": [{"port": port, "targetPort": port}]},
            },
        ],
    }


# A request in each line, answered by one line with the id of the request. Logs go to stderr.
for line in sys.stdin:
    request = json.loads(line)
    try:
        answer = sync(request)
    except Exception as e:  # the next request may be fine
        traceback.print_exc()
        answer = {"error": repr(e)}
    print(json.dumps({"id": request["id"], **answer}), flush=True)
