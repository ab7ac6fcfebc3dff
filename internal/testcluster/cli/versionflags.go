package cli

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"skiff/internal/cli"
	"skiff/internal/testcluster/apiserver"
	"skiff/internal/testcluster/apiserver/features"
)

// versionedDirectory is the name of a directory of KUBEBUILDER_ASSETS for one version, as setup-envtest makes them.
var versionedDirectory = regexp.MustCompile(`^v?(1\.\d+)(\.\d+)?(-[a-z0-9]+-[a-z0-9_]+)?$`)

// versionOf returns the version in the path of a program, "" if there is none.
func versionOf(path string) string {
	if m := versionedDirectory.FindStringSubmatch(filepath.Base(filepath.Dir(path))); m != nil {
		return m[1]
	}
	return ""
}

// admissionPlugins are those of the real server that this one has the work of, and those that it has none of, so that
// a test that asks for one would not test it. What needs CEL is there in the build with CEL. The server can do without
// those that are optional.
var admissionPlugins = struct{ optional, had, cel, missing []string }{
	apiserver.OptionalPlugins,
	[]string{"DefaultTolerationSeconds", "LimitRanger", "MutatingAdmissionWebhook", "NamespaceLifecycle", "Priority",
		"ValidatingAdmissionWebhook"},
	[]string{"MutatingAdmissionPolicy", "ValidatingAdmissionPolicy"},
	[]string{"AlwaysAdmit", "AlwaysDeny", "AlwaysPullImages", "CertificateApproval", "CertificateSigning",
		"CertificateSubjectRestriction", "ClusterTrustBundleAttest", "DefaultIngressClass",
		"DenyServiceExternalIPs", "EventRateLimit", "ExtendedResourceToleration", "ImagePolicyWebhook",
		"JobValidation", "LimitPodHardAntiAffinityTopology", "NamespaceAutoProvision", "NamespaceExists",
		"NodeDeclaredFeatureValidator", "NodeRestriction", "OwnerReferencesPermissionEnforcement",
		"PersistentVolumeClaimResize", "PodGroupProtection", "PodGroupWorkloadExists", "PodNodeSelector",
		"PodResizeValidator", "PodTolerationRestriction", "PodTopologyLabels", "ResourceQuota",
		"RuntimeClass", "ServiceAccount", "StorageObjectInUseProtection", "TaintNodesByCondition"},
}

// words splits a flag with values that are separated by commas.
func (f programFlags) words(name string) []string {
	return strings.FieldsFunc(strings.Join(f[name], ","), func(r rune) bool { return r == ',' || r == ' ' })
}

// checkPlugins refuses to enable admission plugins that this server does not have, and to disable those that it has:
// what a test says it tests, it tests.
func checkPlugins(f programFlags, cel *apiserver.CEL) error {
	had := slices.Concat(admissionPlugins.had, admissionPlugins.optional)
	if cel != nil {
		had = slices.Concat(had, admissionPlugins.cel)
	}
	for _, flag := range []string{"enable-admission-plugins", "disable-admission-plugins"} {
		for _, name := range f.words(flag) {
			known := slices.Contains(slices.Concat(had, admissionPlugins.cel, admissionPlugins.missing), name)
			switch has := slices.Contains(had, name); {
			case !known:
				return cli.Usagef("--%s: unknown admission plugin %q", flag, name)
			case flag == "enable-admission-plugins" && !has:
				return cli.Usagef("--%s: skiff-dev does not have the admission plugin %s, so that a test would not "+
					"test it: leave it out, or use a real kube-apiserver for this test", flag, name)
			case flag == "disable-admission-plugins" && has && !slices.Contains(admissionPlugins.optional, name):
				return cli.Usagef("--%s: skiff-dev cannot do without the admission plugin %s: leave it out, or use a "+
					"real kube-apiserver for this test", flag, name)
			}
		}
	}
	return nil
}

// unserved reads --runtime-config: GROUP/VERSION or GROUP/VERSION/RESOURCE (of the core group: VERSION) with =false
// for what is not to be served. It refuses what would have no effect.
func unserved(f programFlags, set features.Set) (out []string, err error) {
	for _, entry := range f.words("runtime-config") {
		name, value, given := strings.Cut(entry, "=")
		on, err := strconv.ParseBool(value)
		if !given {
			on, err = true, nil
		}
		switch served := apiserver.Serves(set, name); {
		case err != nil:
			return nil, cli.Usagef("--runtime-config: %s: %q is not true or false", name, value)
		case strings.HasPrefix(name, "api/") && !(name == "api/ga" && on):
			return nil, cli.Usagef("--runtime-config: skiff-dev serves the stable versions of Kubernetes %s and no "+
				"others: %s has no effect; name what is not to be served as GROUP/VERSION=false", set.Version(), entry)
		case on && !served && name != "api/ga":
			return nil, cli.Usagef("--runtime-config: skiff-dev as Kubernetes %s does not serve %s: leave it out, or "+
				"use a real kube-apiserver for this test", set.Version(), name)
		case !on && served:
			out = append(out, name)
		}
	}
	return out, nil
}

// featuresOf returns the version and feature gates that flags name.
func featuresOf(version, gates string) (features.Set, error) {
	if _, err := features.New(version, ""); err != nil {
		return features.Set{}, cli.Usagef("--kubernetes-version: %w", err)
	}
	set, err := features.New(version, gates)
	if err != nil {
		return set, cli.Usagef("--feature-gates: %w", err)
	}
	return set, nil
}

// versionHelp is the help of --kubernetes-version, and gatesHelp that of --feature-gates.
var versionHelp = fmt.Sprintf("the `version` of Kubernetes to be, %s: its kinds, fields and defaults of feature "+
	"gates; rules are those of %s", strings.Join(features.Versions(), ", "), apiserver.Version)

const gatesHelp = "feature `gates` of the API server to set, such as WatchList=false,ImageVolume=true; one that " +
	"would have no effect is refused"
