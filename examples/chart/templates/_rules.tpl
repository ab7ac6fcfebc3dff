{{- /* Made by `make generate` from what `skiff manifests` prints: change that. */}}
{{- define "skiff.rules" }}
{{- if has "webserver" .Values.controllers }}
  # what is declared
  - apiGroups: [skiff.dev]
    resources: [webservers]
    verbs: [get, list, watch]
  # what was seen
  - apiGroups: [skiff.dev]
    resources: [webservers/status]
    verbs: [patch]
  # owner references, where OwnerReferencesPermissionEnforcement is on
  - apiGroups: [skiff.dev]
    resources: [webservers/finalizers]
    verbs: [update]
  # children of a WebServer
  - apiGroups: [apps]
    resources: [deployments]
    verbs: [get, list, watch, create, patch, delete]
  # children of a WebServer
  - apiGroups: [""]
    resources: [services]
    verbs: [get, list, watch, create, patch, delete]
  # why the pods of a WebServer are not ready
  - apiGroups: [""]
    resources: [pods]
    verbs: [list]
  # what was done, and why
  - apiGroups: [events.k8s.io]
    resources: [events]
    verbs: [create, patch]
{{- end }}
{{- if has "redis" .Values.controllers }}
  # what is declared; the finalizer of a Redis
  - apiGroups: [skiff.dev]
    resources: [redis]
    verbs: [get, list, watch, patch]
  # what was seen
  - apiGroups: [skiff.dev]
    resources: [redis/status]
    verbs: [patch]
  # owner references, where OwnerReferencesPermissionEnforcement is on
  - apiGroups: [skiff.dev]
    resources: [redis/finalizers]
    verbs: [update]
  # children of a Redis
  - apiGroups: [""]
    resources: [services, pods]
    verbs: [get, list, watch, create, patch, delete]
  # what was done, and why
  - apiGroups: [events.k8s.io]
    resources: [events]
    verbs: [create, patch]
{{- end }}
{{- if and (has "restart" .Values.controllers) (has "pods" (.Values.restartSources | default (list "pods"))) }}
  # sources of a RestartTrigger
  - apiGroups: [""]
    resources: [pods]
    verbs: [list, watch]
  # whether pods of another namespace may be a source
  - apiGroups: [""]
    resources: [namespaces]
    verbs: [get]
{{- end }}
{{- if and (has "restart" .Values.controllers) (has "configmaps" (.Values.restartSources | default (list "pods"))) }}
  # sources of a RestartTrigger
  - apiGroups: [""]
    resources: [configmaps]
    verbs: [list, watch]
{{- end }}
{{- if and (has "restart" .Values.controllers) (has "secrets" (.Values.restartSources | default (list "pods"))) }}
  # sources of a RestartTrigger; no value is kept
  - apiGroups: [""]
    resources: [secrets]
    verbs: [list, watch]
{{- end }}
{{- if has "restart" .Values.controllers }}
  # what is declared
  - apiGroups: [skiff.dev]
    resources: [restarttriggers]
    verbs: [get, list, watch]
  # what was seen
  - apiGroups: [skiff.dev]
    resources: [restarttriggers/status]
    verbs: [patch]
  # targets of a RestartTrigger
  - apiGroups: [apps]
    resources: [deployments, statefulsets, daemonsets]
    verbs: [get, patch]
  # what was done, and why
  - apiGroups: [events.k8s.io]
    resources: [events]
    verbs: [create, patch]
{{- end }}
{{- if has "reload" .Values.controllers }}
  # which workloads have opted in; they are restarted by an annotation
  - apiGroups: [apps]
    resources: [deployments, statefulsets, daemonsets]
    verbs: [list, watch, patch]
  # whether a ConfigMap has changed
  - apiGroups: [""]
    resources: [configmaps]
    verbs: [list, watch]
  # whether a Secret has changed; no value is kept
  - apiGroups: [""]
    resources: [secrets]
    verbs: [list, watch]
  # what was done, and why
  - apiGroups: [events.k8s.io]
    resources: [events]
    verbs: [create, patch]
{{- end }}
{{- if and (has "reload" .Values.controllers) (not .Values.namespaced) }}
  # the same of Rollouts of Argo, if any
  - apiGroups: [argoproj.io]
    resources: [rollouts]
    verbs: [list, watch, patch]
{{- end }}
{{- if .Values.watchNamespaceSelector }}
  # which namespaces a label selector selects
  - apiGroups: [""]
    resources: [namespaces]
    verbs: [list, watch]
{{- end }}
{{- end }}
