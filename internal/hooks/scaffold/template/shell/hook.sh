#!/bin/sh
# The sync hook: reads a {{Kind}} with its children as JSON, and writes the children and the status that it wants.
exec jq '
  .parent as $parent
  | $parent.metadata.name as $name
  | ($parent.spec.port // 80) as $port
  | .children["Deployment.apps/v1"][$parent.metadata.namespace + "/" + $name] as $deployment
  | {
      status: {readyReplicas: ($deployment.status.readyReplicas // 0)},
      children: [
        {
          apiVersion: "apps/v1",
          kind: "Deployment",
          metadata: {name: $name},
          spec: {
            replicas: ($parent.spec.replicas // 1),
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
