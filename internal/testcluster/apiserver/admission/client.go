package admission

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/obj"
)

const (
	// maxAnswer is how long an answer may be: as long as a request of a client.
	maxAnswer = 3 << 20
	// maxQuoted is how much of an answer that is none an error quotes, as client-go does.
	maxQuoted = 2048

	handshakeTimeout, idleTimeout = 10 * time.Second, 90 * time.Second
)

// Network is how a webhook is reached.
type Network struct {
	// Resolve returns the address of a Service's port.
	Resolve func(namespace, name string, port int64) (string, error)
	Dial    func(ctx context.Context, network, address string) (net.Conn, error)
}

// client asks one webhook for reviews.
type client struct {
	Version string // of the reviews: the first one of those that the webhook accepts and the server knows
	Err     error  // why the webhook cannot be called, nil if it can

	kind reviewKind // of the reviews
	url  url.URL
	http http.Client
}

// newClient returns the client for a webhook that was found valid, whose clientConfig and versions of reviews are in
// those fields of config.
func newClient(config map[string]any, settings, versions string, k reviewKind, n Network) *client {
	c := &client{kind: k}
	for _, v := range slices.Backward(obj.Texts(config, versions)) {
		if v == "v1" || v == "v1beta1" {
			c.Version = v
		}
	}
	c.Err = c.connect(obj.Map(config, settings), n)
	return c
}

// connect makes the HTTP client and the URL of a clientConfig. The error is about its caBundle, or the URL.
func (c *client) connect(config map[string]any, n Network) error {
	var roots *x509.CertPool // nil: those of the system
	if text := obj.String(config, "caBundle"); text != "" {
		bundle, err := base64.StdEncoding.DecodeString(text)
		if roots = x509.NewCertPool(); err != nil || !roots.AppendCertsFromPEM(bundle) {
			return errors.New("unable to load root certificates: unable to parse bytes as PEM block")
		}
	}
	transport := &http.Transport{DialContext: n.Dial, TLSHandshakeTimeout: handshakeTimeout,
		IdleConnTimeout: idleTimeout, MaxIdleConnsPerHost: 25,
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	c.http.Transport = transport
	service := obj.Map(config, "service")
	if service == nil {
		u, err := url.Parse(obj.String(config, "url"))
		if err != nil {
			//lint:ignore ST1005 these are the words of the real server
			return fmt.Errorf("Unparsable URL: %w", err)
		}
		c.url = url.URL{Scheme: u.Scheme, Host: u.Host, Path: path.Join("/", u.Path)}
		return nil
	}
	namespace, name := obj.String(service, "namespace"), obj.String(service, "name")
	port, _ := obj.Int(service, "port")
	host := name + "." + namespace + ".svc"
	transport.TLSClientConfig.ServerName = host
	transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		address, err := n.Resolve(namespace, name, port)
		if err != nil {
			return nil, err
		}
		return n.Dial(ctx, network, address)
	}
	c.url = url.URL{Scheme: "https", Host: net.JoinHostPort(host, strconv.FormatInt(port, 10)),
		Path: path.Join("/", obj.String(service, "path"))}
	return nil
}

// Close ends the idle connections.
func (c *client) Close() {
	if c.Err == nil {
		c.http.CloseIdleConnections()
	}
}

// Ask asks for a review, decodes the answer into what into points at, and returns the UID of the request. The webhook
// gets its timeout in the query. The errors have the words of client-go.
func (c *client) Ask(ctx context.Context, request map[string]any, timeout time.Duration, into any) (string, error) {
	if c.Err != nil {
		return "", c.Err
	}
	uid := obj.NewUID()
	request["uid"] = uid
	body, err := c.post(ctx, map[string]any{"kind": c.kind.Kind, "apiVersion": c.kind.Group + "/" + c.Version,
		"request": request}, timeout)
	if err == nil {
		err = c.kind.Decode(body, into)
	}
	return uid, err
}

func (c *client) post(ctx context.Context, review map[string]any, timeout time.Duration) ([]byte, error) {
	body, err := patch.Encode(review)
	if err != nil {
		return nil, fmt.Errorf("encode the review: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	to := c.url
	to.RawQuery = "timeout=" + timeout.String()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), bytes.NewReader(append(body, '\n')))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, */*")
	req.Header.Set("User-Agent", "kube-apiserver-admission")
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 { // 101: the body is the connection, which the end of ctx does not close
		return nil, errors.New(refusal(resp, nil))
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("unexpected error when reading response body. Please retry. Original error: %w", err)
	case len(answer) > maxAnswer:
		return nil, fmt.Errorf("the response is longer than %d bytes", maxAnswer)
	case resp.StatusCode < 200 || resp.StatusCode > http.StatusPartialContent:
		return nil, errors.New(refusal(resp, answer))
	case len(answer) == 0:
		return nil, fmt.Errorf("0-length response with status code: %d and content type: %s", resp.StatusCode,
			cmp.Or(resp.Header.Get("Content-Type"), "application/json"))
	}
	return answer, nil
}

// refusal is what client-go says of an answer with this status.
func refusal(resp *http.Response, body []byte) string {
	said := "unknown"
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.Header.Get("Content-Type") == "" || err == nil && strings.HasPrefix(kind, "text/") {
		said = strings.TrimSpace(string(body[:min(len(body), maxQuoted)]))
	}
	known := map[int]string{
		http.StatusConflict:            "the server reported a conflict",
		http.StatusNotFound:            "the server could not find the requested resource",
		http.StatusBadRequest:          "the server rejected our request for an unknown reason",
		http.StatusUnauthorized:        "the server has asked for the client to provide credentials",
		http.StatusForbidden:           said,
		http.StatusMethodNotAllowed:    "the server does not allow this method on the requested resource",
		http.StatusUnprocessableEntity: "the server rejected our request due to an error in our request",
		http.StatusServiceUnavailable:  "the server is currently unable to handle the request",
		http.StatusGatewayTimeout: "the server was unable to return a response in the time allotted, but may still " +
			"be processing the request",
		http.StatusTooManyRequests: "the server has received too many requests and has asked us to try again later",
	}
	switch text, ok := known[resp.StatusCode]; {
	case ok:
		return text
	case resp.StatusCode >= 500:
		return fmt.Sprintf("an error on the server (%q) has prevented the request from succeeding", said)
	}
	return fmt.Sprintf("the server responded with the status code %d but did not return more information",
		resp.StatusCode)
}

// reviewKind is the group and kind of reviews.
type reviewKind struct{ Group, Kind string }

// Decode decodes an answer, which may not say what it is. The errors are those of the real server, which reads YAML,
// too.
func (k reviewKind) Decode(body []byte, into any) error {
	if !json.Valid(body) {
		if v, _, err := obj.DecodeYAML(body); err == nil {
			if body, err = patch.Encode(v); err != nil {
				return err
			}
		}
	}
	var typed struct {
		APIVersion string `json:"apiVersion,omitempty"`
		Kind       string `json:"kind,omitempty"`
	}
	if err := json.Unmarshal(body, &typed); err != nil {
		return fmt.Errorf("couldn't get version/kind; json parse error: %w", err)
	}
	group, version, _ := strings.Cut(typed.APIVersion, "/")
	known := group == k.Group && (version == "v1" || version == "v1beta1") && typed.Kind == k.Kind
	if typed.APIVersion != "" && typed.Kind != "" && !known {
		return fmt.Errorf("no kind %q is registered for version %q in scheme %q", typed.Kind, typed.APIVersion,
			"pkg/runtime/scheme.go:111")
	}
	return json.Unmarshal(body, into)
}

// Other is the error about an answer that is no review of version v1, nil for one that is.
func (k reviewKind) Other(apiVersion, kind string) error {
	if apiVersion == k.Group+"/v1" && kind == k.Kind {
		return nil
	}
	return fmt.Errorf("expected webhook response of %s/v1, Kind=%s, got %s, Kind=%s", k.Group, k.Kind,
		groupVersion(apiVersion), kind)
}

// groupVersion prints an apiVersion as the real server prints its parts.
func groupVersion(apiVersion string) string { return cmp.Or(apiVersion, "/") }
