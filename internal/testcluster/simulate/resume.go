package simulate

import "time"

// ranStatus is the part of a pod's status about the containers before this process began.
type ranStatus struct {
	Phase      string    `json:"phase"`
	PodIP      string    `json:"podIP"`
	StartTime  time.Time `json:"startTime"`
	Containers []struct {
		RestartCount int `json:"restartCount"`
		State        struct {
			Running struct {
				StartedAt time.Time `json:"startedAt"`
			} `json:"running"`
		} `json:"state"`
		LastState struct {
			Terminated struct {
				FinishedAt time.Time `json:"finishedAt"`
			} `json:"terminated"`
		} `json:"lastState"`
	} `json:"containerStatuses"`
}

// resumed returns the sandbox of a pod that ran before this process began: the containers run on, with the old address
// and times. The sandbox of any other pod has no uid.
func resumed(p *kubeletPod, startDelay time.Duration) sandbox {
	var s ranStatus
	if readStatus(podResource, p, p.Status, &s) != nil || s.Phase != "Running" || s.PodIP == "" ||
		s.StartTime.IsZero() || len(s.Containers) == 0 {
		return sandbox{}
	}
	first := s.Containers[0]
	box := sandbox{uid: p.UID, ip: s.PodIP, created: s.StartTime, restarts: first.RestartCount,
		restarted: first.LastState.Terminated.FinishedAt, ready: first.State.Running.StartedAt}
	if box.ready.IsZero() { // the container was restarting
		box.ready = s.StartTime.Add(startDelay)
	}
	return box
}
