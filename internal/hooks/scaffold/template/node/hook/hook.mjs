// The sync hook: gets a {{Kind}} with its children, and answers with the children and the status that it wants.
import { createInterface } from "node:readline";

function sync({ parent, children }) {
  const { name, namespace } = parent.metadata;
  const { image, replicas = 1, port = 80 } = parent.spec;
  const labels = { app: name };
  const deployment = children["Deployment.apps/v1"][`${namespace}/${name}`];
  const readyReplicas = deployment?.status?.readyReplicas ?? 0;
  const state = readyReplicas === replicas ? "Ready" : "Progressing";
  return {
    status: { ready: `${readyReplicas}/${replicas}`, state, readyReplicas },
    children: [
      {
        apiVersion: "apps/v1",
        kind: "Deployment",
        metadata: { name },
        spec: {
          replicas,
          selector: { matchLabels: labels },
          template: {
            metadata: { labels },
            spec: { containers: [{ name: "main", image, ports: [{ containerPort: port }] }] },
          },
        },
      },
      {
        apiVersion: "v1",
        kind: "Service",
        metadata: { name },
        spec: { selector: labels, ports: [{ port, targetPort: port }] },
      },
    ],
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
