package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	api "k8s.io/api/lifecycle/v1alpha1"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/lifecycle"
	_ "k8s.io/kubernetes/pkg/apis/lifecycle/install"
	"k8s.io/kubernetes/pkg/apis/lifecycle/validation"
	clocktesting "k8s.io/utils/clock/testing"
)

// statusUpdate is one update of an Eviction's status, and the time of the server.
type statusUpdate struct {
	Now time.Time    `json:"now"`
	Old api.Eviction `json:"old"`
	New api.Eviction `json:"new"`
}

// checkEvictions validates the updates on standard input as the kube-apiserver would at their times. It
// prints a line for each update: empty, or the errors.
func checkEvictions() error {
	updates := json.NewDecoder(os.Stdin)
	for {
		var update statusUpdate
		if err := updates.Decode(&update); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		var before, after lifecycle.Eviction
		if err := legacyscheme.Scheme.Convert(&update.Old, &before, nil); err != nil {
			return err
		}
		if err := legacyscheme.Scheme.Convert(&update.New, &after, nil); err != nil {
			return err
		}
		options := validation.EvictionStatusValidationOptions{Clock: clocktesting.NewFakePassiveClock(update.Now)}
		errors := validation.ValidateEvictionStatusUpdate(&after, &before, options)
		text := ""
		if len(errors) > 0 {
			text = errors.ToAggregate().Error()
		}
		fmt.Println(text)
	}
}
