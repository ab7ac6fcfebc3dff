#!/usr/bin/env bash
# run.sh CHECKOUT EXAMPLE: runs the test.sh of one of metacontroller's examples, in the cluster of KUBECONFIG, with skiff
# (the program in SKIFF) in the place of metacontroller. The hooks run here instead of in pods. Of the example, nothing
# is changed but what says where its hooks are.
set -eu
checkout=$1 example=$2
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
running=()
finish() {
  code=$?
  set +e
  for pid in "${running[@]}"; do kill "$pid"; wait "$pid"; done
  [ $code = 0 ] || tail -n 50 "$work"/*.log >&2
  kubectl delete persistentvolumes -l example=catset
  kubectl delete statefulsets,deployments,services,configmaps,secrets --all -n metacontroller
  rm -rf "$work"
  exit $code
} 2>/dev/null
trap finish EXIT
cp -r "$checkout/examples" "$checkout/manifests" "$work/"
cd "$work/examples/$example"

# The hooks have names of Services; here they are on a port of this machine. Certificates are for a name.
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
address=127.0.0.1:$port
[ "$example" = webhook-auth ] && address=localhost:$port
find "$work/examples" -name '*.yaml' -exec sed -i -E \
  -e "s#url: (https?)://[a-z-]+\.metacontroller/#url: \1://$address/#" -e "s#host: [a-z-]+\.metacontroller#host: $address#" {} +

serve() { # PROGRAM: in Python, on the port
  python3 "$here/serve.py" "$port" "$1" >"$work/hook.log" 2>&1 &
  running+=($!)
}
flags=()
if [ "$example" = catset ]; then # its pods have volumes, which nothing else provides here
  for i in 1 2 3 4 5 6; do
    printf '{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"catset-%d","labels":{"example":"catset"}},"spec":
      {"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],"hostPath":{"path":"/tmp"}}}\n' $i
  done | kubectl create -f - >"$work/volumes.log" 2>&1
fi
case $example in
service-per-pod*) serve "$here/service_per_pod.py" ;; # its hooks are in jsonnet
update-strategy)                                      # its program is in a ConfigMap
  kubectl create --dry-run=client -o json -f manifest/update-strategy-controllers.yaml |
    jq -r '(.items[]?, .) | select(.kind == "ConfigMap") | .data["sync.py"]' >"$work/sync.py"
  serve "$work/sync.py" ;;
target-label-selector)
  flags=(--target-label-selector=controller-group=cicd)
  serve ../secretpropagation/manifest/sync.py ;;
webhook-auth) # its program has files that the test makes
  sed -i "s/DNS:webhook-auth-controller.metacontroller,/DNS:localhost,/" test.sh
  sed -e "s#\"/certs\"#\"$work/certs\"#" -e "s#\"/token/token\"#\"$work/certs/token\"#" manifest/sync.py >"$work/sync.py"
  (
    mkdir "$work/certs"
    for name in server/ca.crt server/tls.crt server/tls.key token/token; do
      until kubectl get secret "webhook-auth-${name%/*}" -n metacontroller -o json >"$work/secret" 2>/dev/null; do sleep 1; done
      jq -r --arg key "${name#*/}" '.data[$key]' "$work/secret" | base64 -d >"$work/certs/${name#*/}"
    done
    exec python3 "$here/serve.py" "$port" "$work/sync.py"
  ) >"$work/hook.log" 2>&1 &
  running+=($!) ;;
indexedjob) # no pod runs here: each ends when it is asked for, and prints what its container would
  mkdir "$work/bin"
  printf '#!/bin/sh\nexport PATH=%q\n[ "$1" = logs ] || exec kubectl "$@"\nkubectl get pod "$2" -o json |\n  %s\n' "$PATH" \
    "jq -r '.spec.containers[0].env[] | select(.name == \"JOB_INDEX\").value'" >"$work/bin/kubectl"
  chmod +x "$work/bin/kubectl"
  while sleep 1; do
    for pod in $(kubectl get pods -l app=print-index --field-selector status.phase=Running -o name); do
      kubectl patch "$pod" --subresource=status --type=merge -p '{"status":{"phase":"Succeeded"}}'
    done
  done >"$work/pods.log" 2>&1 &
  running+=($!)
  export PATH="$work/bin:$PATH"
  serve manifest/sync.py ;;
*)
  if [ -e manifest/sync.py ]; then serve manifest/sync.py; else
    mkdir "$work/hooks"
    cp manifest/*.js "$work/hooks/"
    cp ../nodejs/server.js "$work/"
    (cd "$work" && PORT=$port exec node -r "$here/serve.js" server.js) >"$work/hook.log" 2>&1 &
    running+=($!)
  fi ;;
esac

"$SKIFF" crds install --hooks >"$work/crds.log" 2>&1
kubectl create namespace metacontroller >/dev/null 2>&1 || kubectl get namespace metacontroller >/dev/null
"$SKIFF" hooks run --from-cluster --health-probe-bind-address 0 -v 1 "${flags[@]}" >"$work/skiff.log" 2>&1 &
running+=($!)
timeout 4m bash ./test.sh >"$work/test.log" 2>&1
