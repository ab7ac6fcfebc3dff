package kubeconfig

import "skiff/internal/runtime/kube"

// credential names the credential of requests, and the next step after a refusal: where to renew the credential, and
// whether skiff reads it again or must be restarted.
func (u *user) credential(p *plugin) kube.Credential {
	field := u.credentialField()
	at := u.origin.at(field)
	const again = ", and start skiff again"
	switch {
	case p != nil:
		return kube.Credential{Name: "the credential of the plugin " + p.config.Command,
			Next: "log in again with it by hand; skiff runs it again within seconds"}
	case u.ofPod:
		return kube.Credential{Name: "the token of this pod's service account",
			Next: "where the ServiceAccount was deleted and created again, delete the pod: the next one gets a new " +
				"token"}
	case field == "" && u.AuthProvider != nil:
		return kube.Credential{Name: "the id-token at " + u.origin.at("auth-provider"),
			Next: "run a kubectl command, which refreshes it" + again}
	case u.TokenFile != "":
		return kube.Credential{Name: "the token in " + u.TokenFile,
			Next: "write a new token to that file; skiff reads it again"}
	case at == "--token":
		return kube.Credential{Name: "the token of --token", Next: "start skiff again with a new token"}
	case field == "token":
		return kube.Credential{Name: "the token at " + at, Next: "put a new token there" + again}
	case field == "client-certificate":
		return kube.Credential{Name: "the client certificate in " + u.ClientCert,
			Next: "write a renewed certificate and its key to their files; skiff reads them again"}
	case field == "client-certificate-data":
		return kube.Credential{Name: "the client certificate at " + at,
			Next: "put a renewed certificate and its key there" + again}
	case field != "":
		return kube.Credential{Name: "the user name and password at " + at, Next: "correct them" + again}
	}
	return kube.Credential{Name: "requests without a credential",
		Next: "give a token file, or choose a kubeconfig context whose user has a credential"}
}
