"""What the hooks of metacontroller's examples service-per-pod and service-per-pod-v2 say, in Python."""
import http.server
import json


def pod_name_label(request):
    pod = request["object"]["metadata"]
    return {"labels": {pod["annotations"]["pod-name-label"]: pod["name"]}}


def service_per_pod(request):
    meta, replicas = request["object"]["metadata"], request["object"]["spec"]["replicas"]
    label = meta["annotations"]["service-per-pod-label"]
    pairs = [[int(p) for p in pair.split(":")] for pair in meta["annotations"]["service-per-pod-ports"].split(",")]
    services = []
    for name in (f"{meta['name']}-{i}" for i in range(replicas)):
        services.append({"apiVersion": "v1", "kind": "Service",
                         "metadata": {"name": name, "labels": {"app": "service-per-pod"}},
                         "spec": {"selector": {label: name}, "ports": [
                             {"name": f"port-{port}", "port": port, "targetPort": target} for port, target in pairs]}})
    first = f"{meta['namespace']}/{meta['name']}-0"  # as version 2 names it
    seen = first in request["attachments"]["Service.v1"]
    return {"attachments": services, "annotations": {"v2-naming-verified": "true" if seen else "false"}}


def finalize(request):
    return {"attachments": [], "finalized": not request["attachments"]["Service.v1"]}


HOOKS = {"/sync-pod-name-label": pod_name_label, "/sync-service-per-pod": service_per_pod,
         "/finalize-service-per-pod": finalize}


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = json.dumps(HOOKS[self.path](request)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(answer)


http.server.HTTPServer(("", 80), Handler).serve_forever()
