package kube

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// switching answers each request with 101 and keeps the connection, until the client closes it.
func switching(t *testing.T) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		_, _ = io.Copy(io.Discard, conn)
	})
}

// Package net/http does not close the connection of a 101 at the end of the request's context.
func TestAnAnswerThatSwitchesProtocolsHoldsNoRequest(t *testing.T) {
	for name, ask := range map[string]func(t *testing.T, c *Client) error{
		"get": func(t *testing.T, c *Client) error { return c.Get(t.Context(), pods, Key{"default", "a"}, new(pod)) },
		"patch": func(t *testing.T, c *Client) error {
			return c.Patch(t.Context(), pods, Key{"default", "a"}, MergePatch, 1, nil, WriteOptions{})
		},
		"list": func(t *testing.T, c *Client) error {
			_, err := List[*pod](t.Context(), c, Query{Resource: pods}, ListOptions{})
			return err
		},
		"watch": func(t *testing.T, c *Client) error {
			_, err := Watch[*pod](t.Context(), c, Query{Resource: pods}, WatchOptions{})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := pipeClient(t, switching(t), func(cfg *Config) { cfg.Timeout = 3 * time.Second })
				began := time.Now()
				err := ask(t, c)
				if err == nil || !strings.Contains(err.Error(), "101, Switching Protocols") || time.Since(began) > 0 {
					t.Errorf("got %v after %s", err, time.Since(began))
				}
				if name == "patch" && !UnknownOutcome(err) {
					t.Error("whether the patch was done is unknown")
				}
				if c.Contact().Since.IsZero() {
					t.Error("contact is not in doubt")
				}
			})
		})
	}
}
