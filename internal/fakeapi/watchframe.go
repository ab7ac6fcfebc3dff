package fakeapi

import (
	"skiff/internal/fakeapi/answer"
	"skiff/internal/fakeapi/fields"
)

func (wt *watcher) sendError(err error) error {
	body, _ := answer.StatusObject(err)
	object := answer.Encode(body)
	if wt.accept.protobuf {
		object = protobufStatus(body)
	}
	sendErr := wt.frame("ERROR", object)
	wt.flush()
	return sendErr
}

// frame writes one event. Frames end with a newline, as the real server's do.
func (wt *watcher) frame(eventType string, object []byte) error {
	_, err := wt.w.Write(wt.frameOf(eventType, object))
	return err
}

func (wt *watcher) frameOf(eventType string, object []byte) []byte {
	if wt.accept.protobuf {
		return fields.EncodeEvent(eventType, object)
	}
	b := make([]byte, 0, len(object)+40)
	b = append(b, `{"type":"`...)
	b = append(b, eventType...)
	b = append(b, `","object":`...)
	b = append(b, object...)
	return append(b, "}\n"...)
}
