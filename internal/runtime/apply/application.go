package apply

import (
	"context"
	"fmt"

	"skiff/internal/runtime/kube"
)

// application is one call of Apply.
type application struct {
	*Engine
	owner Owner
	hold  bool
	mem   *owned

	// lock guards what follows. It is a channel, because its holder waits for a server: in a test's bubble, time
	// passes for those who wait for a channel and not for those who wait for a mutex.
	lock    chan struct{}
	asked   bool
	gone    bool
	goneErr error
}

func (e *Engine) application(owner Owner, hold bool) *application {
	return &application{Engine: e, owner: owner, hold: hold, mem: e.remembered(owner), lock: make(chan struct{}, 1)}
}

// operationFor prepares the operation for a child that is declared. Its want is set as far as the child could be read,
// also with an error.
func (a *application) operationFor(c Child) (*operation, error) {
	want, err := declare(a.owner, c)
	t := &operation{application: a, want: want}
	if err != nil {
		return t, err
	}
	if t.kind = a.kindOf(want.apiVersion, want.kind); t.kind == nil {
		return t, fmt.Errorf("%s is of a kind that the engine was not made for", t)
	}
	if t.mem = a.mem.declare(t.kind, want.key); t.mem == nil {
		return t, fmt.Errorf("%s is declared twice", t)
	}
	return t, nil
}

// ownerGone asks the server once whether the owner has gone, or is no longer the one that the cache shows. It is asked
// before a child that existed is made again: the mirrors of two kinds are not of one moment, least of all after an
// outage, and the child may have gone with an owner whose deletion has not reached us. The garbage collector would
// remove what we make, and its event would make us do it again.
func (a *application) ownerGone(ctx context.Context) (bool, error) {
	a.lock <- struct{}{}
	defer func() { <-a.lock }()
	if a.asked {
		return a.gone, a.goneErr
	}
	var live struct {
		kube.Meta `json:"metadata"`
	}
	err := a.client.Get(ctx, a.owner.Resource, a.owner.Key(), &live)
	if a.gone = kube.IsNotFound(err); !a.gone {
		a.gone, a.goneErr = live.UID != a.owner.UID || live.Deleting(), err
	}
	a.asked = true
	return a.gone, a.goneErr
}
