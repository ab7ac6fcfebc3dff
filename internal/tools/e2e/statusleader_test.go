package e2e

import (
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"testing"
)

// `skiff status` with a cluster finds the leader's Lease, and the API server passes what it asks on to the pod that
// holds it. The pod is this machine: kube-apiserver dials the address in its status.
func TestStatusAsksTheLeaderByWayOfTheServer(t *testing.T) {
	s := newScope(t)
	leader := s.startReplica(t, "leader")
	Eventually(t, limit, "it leads", func() (bool, string) { return s.holder() != "", "" })
	host := must(os.Hostname())(t)
	pod := strings.ToLower(host)
	if !strings.HasPrefix(s.holder(), pod+"_") {
		t.Fatalf("the holder is %s, want the host name %s in it", s.holder(), pod)
	}
	address := servesProbesOnNetwork(t, leader.Skiff)
	s.Kubectl("create", "serviceaccount", "reader")
	reader := must(s.c.Kubeconfig(s.tokenUser(s.NS, "reader")))(t)
	status := func() Result {
		return runSkiff(t, s, "status", "--kubeconfig", reader, "--leader-election-namespace", s.NS)
	}

	if r := status(); r.Code != 1 || !strings.Contains(r.Stderr, "kubectl create clusterrole skiff-status ") {
		t.Errorf("without rights: %s", r)
	}
	s.Kubectl("create", "role", "skiff-status", "--verb=get,list",
		"--resource=leases.coordination.k8s.io,pods/proxy")
	s.Kubectl("create", "rolebinding", "skiff-status", "--role=skiff-status", "--serviceaccount="+s.NS+":reader")
	Eventually(t, limit, "it may look, and there is no such pod", func() (bool, string) {
		r := status()
		return r.Code == 1 && strings.Contains(r.Stderr, "is no pod of namespace "+s.NS), r.String()
	})
	s.Apply(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"` + pod + `"},"spec":{` +
		`"schedulingGates":[{"name":"a/b"}],"containers":[{"name":"c","image":"i"}]}}`)
	s.Kubectl("patch", "pod", pod, "--subresource=status", "--type=merge", "-p",
		`{"status":{"podIP":"`+address+`","podIPs":[{"ip":"`+address+`"}]}}`)
	Eventually(t, limit, "it tells of the leader", func() (bool, string) {
		r := status()
		return r.Code == 0 && strings.HasPrefix(r.Stdout, "skiff at pod "+s.NS+"/"+pod+" is ready; all is well\n"+
			"[+]leader ok\n    holds Lease "+s.NS+"/skiff\n"), r.String()
	})
	s.Kubectl("delete", "pod", pod, "--now")
}

// servesProbesOnNetwork passes on what comes to port 8081 of this machine, where a pod serves its probes, and returns
// its address in a network: the API server connects to no pod on the loopback interface.
func servesProbesOnNetwork(t *testing.T, sk *Skiff) string {
	t.Helper()
	for _, a := range must(net.InterfaceAddrs())(t) {
		ip, _ := a.(*net.IPNet)
		if ip == nil || ip.IP.To4() == nil || !ip.IP.IsGlobalUnicast() {
			continue
		}
		l := must(net.Listen("tcp", net.JoinHostPort(ip.IP.String(), "8081")))(t)
		proxy := &http.Server{Handler: httputil.NewSingleHostReverseProxy(must(url.Parse(sk.probes))(t))}
		done := make(chan error)
		go func() { done <- proxy.Serve(l) }()
		t.Cleanup(func() {
			noError(t, proxy.Close())
			<-done
		})
		return ip.IP.String()
	}
	t.Skip("this machine has no address but loopback")
	return ""
}
