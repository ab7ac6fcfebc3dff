package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"skiff/internal/testcluster/apiserver"
)

// auditLog writes audit events, a line each, until the first error: a full disk must not stop the cluster that
// somebody tests with.
type auditLog struct {
	mu  sync.Mutex // guards the rest
	to  io.Writer
	err error
}

func (l *auditLog) add(e apiserver.AuditEvent) {
	line, err := json.Marshal(e)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return
	}
	if err == nil {
		_, err = l.to.Write(append(line, '\n'))
	}
	l.err = err
}

// openAudit has the server of o write the file of --audit-log. closeLog, to be called after the end of the server,
// returns the error of the first event that could not be written.
func (f *devFlags) openAudit(o *devOptions, stdout io.Writer) (closeLog func() error, err error) {
	log := &auditLog{to: stdout}
	end := func() error { return nil }
	switch f.audit {
	case "":
		return end, nil
	case "-":
	default:
		file, err := os.OpenFile(f.audit, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600) // it names users and objects
		if err != nil {
			return nil, fmt.Errorf("--audit-log: %w: choose a file that can be written, or - for stdout", err)
		}
		log.to, end = file, file.Close
	}
	o.api.Audit = log.add
	return func() error {
		log.mu.Lock()
		defer log.mu.Unlock()
		if err := errors.Join(log.err, end()); err != nil {
			return fmt.Errorf("--audit-log: %w", err)
		}
		return nil
	}, nil
}
