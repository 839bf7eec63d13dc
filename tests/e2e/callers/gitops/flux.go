package main

import (
	"context"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/polling"
	"github.com/fluxcd/pkg/ssa"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fluxManager is the field manager of Flux.
const fluxManager = "kustomize-controller"

// newFlux returns the manager as kustomize-controller makes it, and the objects of the files.
func newFlux(files []string) (*ssa.ResourceManager, []*unstructured.Unstructured, error) {
	config, err := restConfig()
	if err != nil {
		return nil, nil, err
	}
	kube, err := client.New(config, client.Options{})
	if err != nil {
		return nil, nil, err
	}
	objects, err := readObjects(files)
	if err != nil {
		return nil, nil, err
	}
	poller := polling.NewStatusPoller(kube, kube.RESTMapper(), polling.Options{})
	owner := ssa.Owner{Field: fluxManager, Group: "kustomize.toolkit.fluxcd.io"}
	manager := ssa.NewResourceManager(kube, poller, owner)
	manager.SetOwnerLabels(objects, "app", "flux-system")
	return manager, objects, nil
}

// fluxApply applies the objects as a Kustomization with `wait: true` does, and returns the action by object.
func fluxApply(ctx context.Context, files []string) (any, error) {
	manager, objects, err := newFlux(files)
	if err != nil {
		return nil, err
	}
	// As kustomize-controller has it.
	options := ssa.DefaultApplyOptions()
	options.Cleanup = ssa.ApplyCleanupOptions{
		Annotations: []string{corev1.LastAppliedConfigAnnotation},
		FieldManagers: []ssa.FieldManager{
			{Name: "kubectl", OperationType: metav1.ManagedFieldsOperationApply},
			{Name: "kubectl", OperationType: metav1.ManagedFieldsOperationUpdate},
			{Name: "before-first-apply", OperationType: metav1.ManagedFieldsOperationUpdate},
			{Name: fluxManager, OperationType: metav1.ManagedFieldsOperationUpdate},
		},
	}
	changes, err := manager.ApplyAllStaged(ctx, objects, options)
	if err != nil {
		return nil, err
	}
	wait := ssa.WaitOptions{Interval: time.Second, Timeout: time.Minute}
	if err := manager.WaitForSet(changes.ToObjMetadataSet(), wait); err != nil {
		return nil, err
	}
	return changes.ToMap(), nil
}

// fluxDelete prunes the objects, waits until they are gone, and returns the action by object.
func fluxDelete(ctx context.Context, files []string) (any, error) {
	manager, objects, err := newFlux(files)
	if err != nil {
		return nil, err
	}
	options := ssa.DeleteOptions{
		PropagationPolicy: metav1.DeletePropagationBackground,
		Inclusions:        manager.GetOwnerLabels("app", "flux-system"),
	}
	changes, err := manager.DeleteAll(ctx, objects, options)
	if err != nil {
		return nil, err
	}
	wait := ssa.WaitOptions{Interval: time.Second, Timeout: time.Minute}
	return changes.ToMap(), manager.WaitForTermination(objects, wait)
}
