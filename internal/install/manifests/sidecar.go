package manifests

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Sidecar is a second container of the pod, which serves what skiff calls on localhost.
type Sidecar struct {
	Image     string
	Files     map[string]string // that skiff reads, by name: they are in a ConfigMap
	Directory string            // where it reads them
}

func (i Install) filesName() string { return i.Account.Name + "-files" }

// files is the ConfigMap with the files.
func (i Install) files() string {
	text := i.Account.head("v1", "ConfigMap", i.Account.Namespace, i.filesName()) + "data:\n"
	for _, name := range slices.Sorted(maps.Keys(i.Sidecar.Files)) {
		text += fmt.Sprintf("  %q: |\n    %s\n", name,
			strings.ReplaceAll(strings.TrimSpace(i.Sidecar.Files[name]), "\n", "\n    "))
	}
	return text
}

// serviceAccountDirectory is where the libraries of Kubernetes look for the credential of a pod.
const serviceAccountDirectory = "/var/run/secrets/kubernetes.io/serviceaccount"

// volumes are what the pod has beside its containers: the files, and the token of the service account, which the
// kubelet would otherwise give to both containers.
func (i Install) volumes() string {
	return fmt.Sprintf(`      automountServiceAccountToken: false # the token is for skiff and not for the hook
      volumes:
        - name: files
          configMap:
            name: %s
        - name: token
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
`, word(i.filesName()))
}

// mounts are those of skiff.
func (i Install) mounts() string {
	return fmt.Sprintf(`          volumeMounts:
            - name: files
              mountPath: %q
              readOnly: true
            - name: token
              mountPath: %s
              readOnly: true
`, i.Sidecar.Directory, serviceAccountDirectory)
}

// container is the container of the hook. Its server may listen on localhost alone, so that the kubelet could not
// probe it: skiff says when it does not answer.
func (i Install) container() string {
	return fmt.Sprintf(`        - name: hook
          image: %q
          imagePullPolicy: IfNotPresent
          resources:
            requests:
              cpu: 10m
              memory: 32Mi
            limits:
              memory: 256Mi
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities:
              drop: [ALL]
`, i.Sidecar.Image)
}
