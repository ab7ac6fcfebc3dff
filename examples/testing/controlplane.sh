# The real controllers of Kubernetes on skiff-dev, in place of those that it simulates:
#
#   skiff-dev --bare -- sh controlplane.sh
#
# kube-controller-manager, kube-scheduler and kwok are in PATH; KWOK_STAGES is a file with kwok's stages of pods and
# nodes (kustomize/stage/*/fast and node/heartbeat of its repository, joined by ---).
set -eu
logs=$(mktemp -d)
pids=
trap 'kill $pids; wait; rm -rf "$logs"' EXIT
flags="--kubeconfig $KUBECONFIG --leader-elect=false --secure-port=0"
kube-controller-manager $flags 2>"$logs/controllers" &
pids="$pids $!"
kube-scheduler $flags 2>"$logs/scheduler" &
pids="$pids $!"
kwok --kubeconfig "$KUBECONFIG" --manage-all-nodes --config "$KWOK_STAGES" 2>"$logs/kwok" &
pids="$pids $!"
kubectl create -f - <<'END'
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-0"},
 "status": {"allocatable": {"cpu": "8", "memory": "16Gi", "pods": "100"}}}
END
kubectl create deployment web --image=nginx --replicas=3
if ! kubectl wait --for=condition=Available deployment/web --timeout=120s; then
    tail -n 5 "$logs"/* >&2
    exit 1
fi
kubectl get deployments,replicasets,pods
kubectl delete deployment web --cascade=foreground --timeout=60s
