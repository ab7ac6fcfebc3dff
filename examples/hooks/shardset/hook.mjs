// The sync hook of a ShardSet. skiff calls it once for the latest image and once for each image that a pod still has, and
// takes of each answer the pods of that revision: it need not know that an update is going on.
import { createInterface } from "node:readline";

function sync({ parent, children }) {
  const pods = Object.values(children["Pod.v1"]);
  const isReady = (pod) => pod.status?.conditions?.some((c) => c.type === "Ready" && c.status === "True");
  const pod = (_, i) => ({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: `${parent.metadata.name}-${i}` },
    spec: { containers: [{ name: "main", image: parent.spec.image }] },
  });
  return {
    status: { replicas: pods.length, readyReplicas: pods.filter(isReady).length },
    children: Array.from({ length: parent.spec.replicas }, pod),
  };
}

// A request in each line, answered by one line with the id of the request. Logs go to stderr.
for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  let answer;
  try {
    answer = sync(request);
  } catch (e) { // the next request may be fine
    console.error(e);
    answer = { error: String(e) };
  }
  console.log(JSON.stringify({ id: request.id, ...answer }));
}
