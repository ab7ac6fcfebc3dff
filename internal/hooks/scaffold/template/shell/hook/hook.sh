#!/bin/sh
# The sync hook: reads a {{Kind}} with its children as JSON, and writes the children and the status that it wants.
exec jq '
  .parent as $parent
  | $parent.metadata.name as $name
  | ($parent.spec.port // 80) as $port
  | ($parent.spec.replicas // 1) as $replicas
  | .children["Deployment.apps/v1"][$parent.metadata.namespace + "/" + $name] as $deployment
  | ($deployment.status.readyReplicas // 0) as $ready
  | {
      status: {
        ready: "\($ready)/\($replicas)",
        state: (if $ready == $replicas then "Ready" else "Progressing" end),
        readyReplicas: $ready
      },
      children: [
        {
          apiVersion: "apps/v1",
          kind: "Deployment",
          metadata: {name: $name},
          spec: {
            replicas: $replicas,
            selector: {matchLabels: {app: $name}},
            template: {
              metadata: {labels: {app: $name}},
              spec: {containers: [{name: "main", image: $parent.spec.image, ports: [{containerPort: $port}]}]}
            }
          }
        },
        {
          apiVersion: "v1",
          kind: "Service",
          metadata: {name: $name},
          spec: {selector: {app: $name}, ports: [{port: $port, targetPort: $port}]}
        }
      ]
    }'
