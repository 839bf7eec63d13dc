package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
)

// events are the kinds of the events of one object, in their order.
type events struct {
	namespace, name string
	lock            sync.Mutex
	seen            []string
}

func newEvents(namespace, name string) *events {
	return &events{namespace: namespace, name: name}
}

func (e *events) add(event string, object any) {
	if final, gone := object.(cache.DeletedFinalStateUnknown); gone {
		object = final.Obj
	}
	accessor, err := meta.Accessor(object)
	if err != nil || accessor.GetNamespace() != e.namespace || accessor.GetName() != e.name {
		return
	}
	e.lock.Lock()
	defer e.lock.Unlock()
	// One update or several: the controller writes the status, too.
	if len(e.seen) == 0 || e.seen[len(e.seen)-1] != event {
		e.seen = append(e.seen, event)
	}
}

func (e *events) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { e.add("add", object) },
		UpdateFunc: func(_, object any) { e.add("update", object) },
		DeleteFunc: func(object any) { e.add("delete", object) },
	}
}

// until waits for an event, and returns all up to then.
func (e *events) until(ctx context.Context, event string) ([]string, error) {
	var seen []string
	err := wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(context.Context) (bool, error) {
		e.lock.Lock()
		defer e.lock.Unlock()
		seen = slices.Clone(e.seen)
		return slices.Contains(seen, event), nil
	})
	if err != nil {
		return nil, fmt.Errorf("no event %s of %s: %v: %w", event, e.name, seen, err)
	}
	return seen, nil
}
