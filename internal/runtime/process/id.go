package process

import (
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// ID is the user and the group that a program runs as.
type ID struct{ UID, GID uint32 }

// ParseID reads UID or UID:GID; the group is that of the number of the user where there is none.
func ParseID(text string) (ID, error) {
	uid, gid, both := strings.Cut(text, ":")
	if !both {
		gid = uid
	}
	u, err := strconv.ParseUint(uid, 10, 31)
	g, groupErr := strconv.ParseUint(gid, 10, 31)
	if err != nil || groupErr != nil || u == 0 || g == 0 {
		return ID{}, errors.New("want UID or UID:GID, numbers from 1 to 2147483647")
	}
	return ID{uint32(u), uint32(g)}, nil
}

// Check says why this process cannot run programs as another user.
func (id ID) Check() error {
	if !mayRunAs() {
		return fmt.Errorf("skiff may not run programs as user %d: it takes Linux and the capabilities SETUID, SETGID "+
			"and KILL; grant them to skiff, or leave the flag out", id.UID)
	}
	return nil
}

// RunAs has a command of OwnGroup run as another user, without supplementary groups.
func RunAs(cmd *exec.Cmd, id ID) { runAs(cmd, id) }
