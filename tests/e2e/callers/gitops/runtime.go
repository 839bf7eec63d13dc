package main

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// newRuntime returns a client of controller-runtime, and the objects of the files.
func newRuntime(files []string) (client.Client, []*unstructured.Unstructured, error) {
	config, err := restConfig()
	if err != nil {
		return nil, nil, err
	}
	kube, err := client.New(config, client.Options{})
	if err != nil {
		return nil, nil, err
	}
	objects, err := readObjects(files)
	return kube, objects, err
}

// runtimeApply applies the objects by `client.Apply`, and returns their resource versions.
func runtimeApply(ctx context.Context, files []string) (any, error) {
	kube, objects, err := newRuntime(files)
	if err != nil {
		return nil, err
	}
	for _, object := range objects {
		configuration := client.ApplyConfigurationFromUnstructured(object)
		if err := kube.Apply(ctx, configuration, client.FieldOwner("runtime")); err != nil {
			return nil, err
		}
	}
	return versions(objects), nil
}

// runtimePatch applies the objects by a patch as another manager. It returns the fields in conflict, and then
// the resource versions of the forced patch.
func runtimePatch(ctx context.Context, files []string) (any, error) {
	kube, objects, err := newRuntime(files)
	if err != nil {
		return nil, err
	}
	conflicts := map[string][]metav1.StatusCause{}
	for _, object := range objects {
		//nolint:staticcheck // many controllers still use it
		patch := client.Apply
		err := kube.Patch(ctx, object.DeepCopy(), patch, client.FieldOwner("patcher"))
		var status apierrors.APIStatus
		if !apierrors.IsConflict(err) || !errors.As(err, &status) {
			return nil, errors.Join(errors.New("no conflict"), err)
		}
		conflicts[object.GetKind()] = status.Status().Details.Causes
		if err := kube.Patch(ctx, object, patch, client.FieldOwner("patcher"), client.ForceOwnership); err != nil {
			return nil, err
		}
	}
	return map[string]any{"conflicts": conflicts, "versions": versions(objects)}, nil
}

// runtimeCreateOrUpdate creates or updates the objects, and returns the result by kind.
func runtimeCreateOrUpdate(ctx context.Context, files []string) (any, error) {
	kube, objects, err := newRuntime(files)
	if err != nil {
		return nil, err
	}
	results := map[string]controllerutil.OperationResult{}
	for _, wanted := range objects {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(wanted.GroupVersionKind())
		object.SetName(wanted.GetName())
		object.SetNamespace(wanted.GetNamespace())
		result, err := controllerutil.CreateOrUpdate(ctx, kube, object, func() error {
			merge(object.Object, wanted.Object)
			return nil
		})
		if err != nil {
			return nil, err
		}
		results[object.GetKind()] = result
	}
	return results, nil
}

// merge sets the fields of a configuration in an object. It replaces lists.
func merge(object, configuration map[string]any) {
	for key, value := range configuration {
		wanted, isMap := value.(map[string]any)
		present, wasMap := object[key].(map[string]any)
		if isMap && wasMap {
			merge(present, wanted)
		} else {
			object[key] = value
		}
	}
}

// runtimeCache creates, changes and deletes an object of each kind. It returns the events that an informer of
// the cache delivers, by kind.
func runtimeCache(ctx context.Context, files []string) (any, error) {
	kube, objects, err := newRuntime(files)
	if err != nil {
		return nil, err
	}
	config, err := restConfig()
	if err != nil {
		return nil, err
	}
	informers, err := cache.New(config, cache.Options{})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go informers.Start(ctx)
	report := map[string][]string{}
	for _, object := range objects {
		kind := &unstructured.Unstructured{}
		kind.SetGroupVersionKind(object.GroupVersionKind())
		informer, err := informers.GetInformer(ctx, kind)
		if err != nil {
			return nil, err
		}
		events := newEvents(object.GetNamespace(), object.GetName())
		if _, err := informer.AddEventHandler(events.handler()); err != nil {
			return nil, err
		}
		if !informers.WaitForCacheSync(ctx) {
			return nil, errors.New("the cache is not synced")
		}
		key := client.ObjectKeyFromObject(object)
		until := func(done func(error) bool) error {
			poll := func(ctx context.Context) (bool, error) {
				return done(informers.Get(ctx, key, kind)), nil
			}
			return wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, poll)
		}
		if err := kube.Create(ctx, object); err != nil {
			return nil, err
		}
		if err := until(func(err error) bool { return err == nil }); err != nil {
			return nil, err
		}
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"seen":"yes"}}}`))
		if err := kube.Patch(ctx, object, patch); err != nil {
			return nil, err
		}
		if err := until(func(err error) bool { return kind.GetLabels()["seen"] == "yes" }); err != nil {
			return nil, err
		}
		if err := kube.Delete(ctx, object); err != nil {
			return nil, err
		}
		if err := until(apierrors.IsNotFound); err != nil {
			return nil, err
		}
		if report[object.GetKind()], err = events.until(ctx, "delete"); err != nil {
			return nil, err
		}
	}
	return report, nil
}
