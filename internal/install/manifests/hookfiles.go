package manifests

import (
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"
)

// HookFiles are files that skiff reads and that are in no image: they come in a ConfigMap. One of the images is set.
type HookFiles struct {
	Files     map[string]string // by name
	Directory string            // where they are mounted
	Sidecar   string            // image of a second container, which serves what skiff calls on localhost
	Runtime   string            // image of what runs the hooks; skiff is copied into its container
}

func (i Install) filesName() string { return i.Account.Name + "-files" }

// files is the ConfigMap with the files.
func (i Install) files() string {
	var data strings.Builder
	encoder := yaml.NewEncoder(&data)
	encoder.SetIndent(2)
	if err := encoder.Encode(map[string]any{"data": i.Hooks.Files}); err != nil { // a map of texts is YAML
		panic(err)
	}
	return i.Account.head("v1", "ConfigMap", i.Account.Namespace, i.filesName()) + data.String()
}

// serviceAccountDirectory is where the libraries of Kubernetes look for the credential of a pod.
const serviceAccountDirectory = "/var/run/secrets/kubernetes.io/serviceaccount"

// programDirectory is where skiff is in a container of another image.
const programDirectory = "/skiff"

// volumes are what the pod has beside its containers: the files, and the program that is copied, or the token of the
// service account, which the kubelet would otherwise give to both containers.
func (h *HookFiles) volumes(configMap string) string {
	text := fmt.Sprintf(`      volumes:
        - name: files
          configMap:
            name: %s
`, word(configMap))
	if h.Runtime != "" {
		return text + `            defaultMode: 0555 # a hook may be a program
        - name: program
          emptyDir:
            sizeLimit: 64Mi # skiff has 15 MB
`
	}
	return "      automountServiceAccountToken: false # the token is for skiff and not for the hook\n" + text +
		`        - name: token
          projected:
            sources:
              - serviceAccountToken:
                  path: token
                  expirationSeconds: 3607 # as the kubelet has it
              - configMap:
                  name: kube-root-ca.crt
                  items:
                    - key: ca.crt
                      path: ca.crt
              - downwardAPI:
                  items:
                    - path: namespace
                      fieldRef:
                        fieldPath: metadata.namespace
`
}

// mounts are those of skiff.
func (h *HookFiles) mounts() string {
	name, path := "token", serviceAccountDirectory
	if h.Runtime != "" {
		name, path = "program", programDirectory
	}
	return fmt.Sprintf(`          volumeMounts:
            - name: files
              mountPath: %q
              readOnly: true
            - name: %s
              mountPath: %s
              readOnly: true
`, h.Directory, name, path)
}

// confined is what a container is not allowed.
const confined = `          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities:
              drop: [ALL]
`

// container is the container of the hook. Its server may listen on localhost alone, so that the kubelet could not
// probe it: skiff says when it does not answer.
func (h *HookFiles) container() string {
	if h.Sidecar == "" {
		return ""
	}
	return fmt.Sprintf(`        - name: hook
          image: %q
          imagePullPolicy: IfNotPresent
          resources:
            requests:
              cpu: 10m
              memory: 32Mi
            limits:
              memory: 256Mi
`, h.Sidecar) + confined
}

// copies is the container that copies skiff out of its own image, before the other one starts.
func (h *HookFiles) copies(image string) string {
	if h.Runtime == "" {
		return ""
	}
	return fmt.Sprintf(`      initContainers:
        - name: copy-skiff
          image: %q
          imagePullPolicy: IfNotPresent
          args: [copy, %[2]s/skiff]
          volumeMounts:
            - name: program
              mountPath: %[2]s
          resources:
            requests:
              cpu: 10m
              memory: 32Mi
            limits:
              memory: 64Mi
`, image, programDirectory) + confined
}
