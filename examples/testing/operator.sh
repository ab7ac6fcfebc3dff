# An operator of others under test, the Prometheus operator, with simulated StatefulSets and pods:
#
#   skiff-dev --controllers none --crds example/prometheus-operator-crd -- sh operator.sh
#
# operator, the program of its cmd/operator, is in PATH; its repository has the definitions.
set -eu
log=$(mktemp)
operator --web.listen-address=127.0.0.1:0 >"$log" 2>&1 &
pid=$!
trap 'kill $pid; wait; rm -f "$log"' EXIT
kubectl create -f - <<'END'
{"apiVersion": "monitoring.coreos.com/v1", "kind": "Prometheus", "metadata": {"name": "web"},
 "spec": {"replicas": 2, "serviceMonitorSelector": {}}}
END
if ! kubectl wait --for=condition=Available prometheus/web --timeout=120s; then
    tail -n 5 "$log" >&2
    exit 1
fi
kubectl get statefulset/prometheus-web service/prometheus-operated secret/prometheus-web

# A new version is rolled out to one pod after another.
kubectl patch prometheus web --type=merge -p '{"spec": {"version": "v3.1.0", "replicas": 3}}'
kubectl rollout status statefulset/prometheus-web --timeout=120s
kubectl wait --for=jsonpath='{.status.availableReplicas}'=3 prometheus/web --timeout=120s
kubectl get pods -o 'custom-columns=NAME:.metadata.name,IMAGE:.spec.containers[0].image'

# What the operator refuses is in the conditions.
kubectl patch prometheus web --type=merge -p '{"spec": {"version": "latest"}}'
kubectl wait --for=condition=Reconciled=False prometheus/web --timeout=120s
kubectl get prometheus/web -o 'jsonpath={.status.conditions[?(@.type=="Reconciled")].message}{"\n"}'

kubectl delete prometheus web
kubectl wait --for=delete statefulset/prometheus-web pod/prometheus-web-0 --timeout=120s
