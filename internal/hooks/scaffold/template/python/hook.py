"""The sync hook: gets a {{Kind}} with its children, and answers with the children and the status that it wants."""

import json
import sys
import traceback


def sync(request):
    parent = request["parent"]
    meta, spec = parent["metadata"], parent["spec"]
    name, port, labels = meta["name"], spec.get("port", 80), {"app": meta["name"]}
    deployment = request["children"]["Deployment.apps/v1"].get(f"{meta['namespace']}/{name}", {})
    return {
        "status": {"readyReplicas": deployment.get("status", {}).get("readyReplicas", 0)},
        "children": [
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": name},
                "spec": {
                    "replicas": spec.get("replicas", 1),
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


for line in sys.stdin:  # a request in each line, answered by one line
    try:
        answer = sync(json.loads(line))
    except Exception as e:  # the next request may be fine
        traceback.print_exc()
        answer = {"error": repr(e)}
    print(json.dumps(answer), flush=True)
