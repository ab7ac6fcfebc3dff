#!/bin/sh
# Reads a pod, and answers with a Service that has its ports and selects it by its name.
exec jq '
  .object.metadata as $meta
  | [.object.spec.containers[].ports[]? | {name: "port-\(.containerPort)", port: .containerPort}] as $ports
  | {
      attachments: (if $ports == [] then [] else [{
        apiVersion: "v1",
        kind: "Service",
        metadata: {name: $meta.name},
        spec: {selector: {"statefulset.kubernetes.io/pod-name": $meta.name}, ports: $ports}
      }] end)
    }'
