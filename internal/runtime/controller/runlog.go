package controller

import (
	"slices"

	"github.com/go-logr/logr"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/queue"
)

// runLog is the sink of one run's log. Key and cause, which stand in every line, become text when a line is written:
// most runs write no line.
type runLog struct {
	logr.LogSink
	item   queue.Item
	values []any // of WithValues
}

func (l *runLog) Info(level int, message string, values ...any) {
	l.LogSink.Info(level, message, l.with(values)...)
}

func (l *runLog) Error(err error, message string, values ...any) {
	if id := kube.AuditID(err); id != "" {
		values = append(slices.Clip(values), "auditID", id)
	}
	l.LogSink.Error(err, message, l.with(values)...)
}

func (l *runLog) with(values []any) []any {
	return slices.Concat([]any{"key", l.item.Key, "cause", l.item.Cause()}, l.values, values)
}

func (l *runLog) WithValues(values ...any) logr.LogSink {
	return &runLog{l.LogSink, l.item, slices.Concat(l.values, values)}
}

func (l *runLog) WithName(name string) logr.LogSink {
	return &runLog{l.LogSink.WithName(name), l.item, l.values}
}
