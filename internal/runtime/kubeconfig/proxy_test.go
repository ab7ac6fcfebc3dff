package kubeconfig

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// pipeBoth copies between two connections until either ends.
func pipeBoth(a, b net.Conn) {
	done := make(chan struct{}, 2)
	for _, pair := range [][2]net.Conn{{a, b}, {b, a}} {
		go func() {
			io.Copy(pair[0], pair[1])
			done <- struct{}{}
		}()
	}
	<-done
	a.Close()
	b.Close()
	<-done
}

// connectProxy is an HTTP proxy that tunnels for user:password only.
func connectProxy(t *testing.T, tunnels *atomic.Int32, user, password string) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		want := &http.Request{Header: http.Header{}}
		want.SetBasicAuth(user, password)
		if r.Method != http.MethodConnect || r.Header.Get("Proxy-Authorization") != want.Header.Get("Authorization") {
			w.WriteHeader(http.StatusProxyAuthRequired)
			return
		}
		up, err := net.Dial("tcp", r.Host)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		down, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		tunnels.Add(1)
		io.WriteString(down, "HTTP/1.1 200 OK\r\n\r\n")
		pipeBoth(down, up)
	}))
}

// Rules: AUTH-20
func TestProxyURLIsUsedAndItsPasswordNeverShown(t *testing.T) {
	const password = "canary-Zq7"
	ca := newCA(t, "ca")
	s := newTLSServer(t, ca.issue("server", "127.0.0.1").pair(t))
	var tunnels atomic.Int32
	connect := connectProxy(t, &tunnels, "u", password)
	defer connect.Close()
	secure := httptest.NewUnstartedServer(connect.Config.Handler)
	secure.TLS = &tls.Config{Certificates: []tls.Certificate{ca.issue("proxy", "127.0.0.1").pair(t)}}
	secure.StartTLS()
	defer secure.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()

	for _, tt := range []struct{ name, proxy, err string }{
		{"http", "http://u:" + password + "@" + connect.Listener.Addr().String(), ""},
		{"https", "https://u:" + password + "@" + secure.Listener.Addr().String(), ""},
		{"http, refused", "http://u:wrong-" + password + "@" + connect.Listener.Addr().String(),
			"Proxy Authentication Required"},
		{"http, unreachable", "http://u:" + password + "@" + closed.Addr().String(), "refused"},
		{"socks5, unreachable", "socks5://u:" + password + "@" + closed.Addr().String(), "refused"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBox(t)
			text := strings.Replace(config("c", s.URL, "token: t"), "server:",
				"proxy-url: "+tt.proxy+"\n    certificate-authority-data: "+b64(ca.pem)+"\n    server:", 1)
			cfg, _, err := b.load(Flags{Kubeconfig: b.write("config", text)})
			if err != nil {
				t.Fatal(err)
			}
			before := tunnels.Load()
			c := newClient(t, cfg)
			_, err = get(t, c)
			c.Close()
			if tt.err == "" && (err != nil || tunnels.Load() != before+1) {
				t.Errorf("error %v, %d tunnels", err, tunnels.Load()-before)
			}
			if tt.err != "" {
				wantError(t, err, tt.err)
				if err != nil && strings.Contains(err.Error(), password) {
					t.Errorf("error shows the password: %v", err)
				}
			}
			for _, verb := range []string{"%v", "%+v", "%#v"} {
				if strings.Contains(fmt.Sprintf(verb, cfg), password) {
					t.Errorf("%s shows the password", verb)
				}
			}
		})
	}
}
