package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"
)

// resources maps kinds by discovery, as kubectl does.
type resources struct {
	config *rest.Config
	mapper *restmapper.DeferredDiscoveryRESTMapper
}

func newResources() (*resources, error) {
	config, err := restConfig()
	if err != nil {
		return nil, err
	}
	found, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(found))
	return &resources{config: config, mapper: mapper}, nil
}

// dynamic returns the dynamic client of an object's resource.
func (r *resources) dynamic(object *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	kube, err := dynamic.NewForConfig(r.config)
	if err != nil {
		return nil, err
	}
	kind := object.GroupVersionKind()
	mapping, err := r.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, err
	}
	if object.GetNamespace() == "" {
		return kube.Resource(mapping.Resource), nil
	}
	return kube.Resource(mapping.Resource).Namespace(object.GetNamespace()), nil
}

// dynamicApply applies the objects through the dynamic client, and returns their resource versions.
func dynamicApply(ctx context.Context, files []string) (any, error) {
	resources, err := newResources()
	if err != nil {
		return nil, err
	}
	objects, err := readObjects(files)
	if err != nil {
		return nil, err
	}
	var applied []*unstructured.Unstructured
	for _, object := range objects {
		kube, err := resources.dynamic(object)
		if err != nil {
			return nil, err
		}
		stored, err := kube.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: "dynamic"})
		if err != nil {
			return nil, err
		}
		applied = append(applied, stored)
	}
	return versions(applied), nil
}

// dynamicInformer creates, changes and deletes each object. It returns the events of dynamic informers by kind.
func dynamicInformer(ctx context.Context, files []string) (any, error) {
	resources, err := newResources()
	if err != nil {
		return nil, err
	}
	objects, err := readObjects(files)
	if err != nil {
		return nil, err
	}
	all, err := dynamic.NewForConfig(resources.config)
	if err != nil {
		return nil, err
	}
	factory := dynamicinformer.NewDynamicSharedInformerFactory(all, 0)
	report := map[string][]string{}
	for _, object := range objects {
		kind := object.GroupVersionKind()
		mapping, err := resources.mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			return nil, err
		}
		informer := factory.ForResource(mapping.Resource)
		events := newEvents(object.GetNamespace(), object.GetName())
		if _, err := informer.Informer().AddEventHandler(events.handler()); err != nil {
			return nil, err
		}
		factory.Start(ctx.Done())
		if !cache.WaitForCacheSync(ctx.Done(), informer.Informer().HasSynced) {
			return nil, errors.New("the informer is not synced")
		}
		kube, err := resources.dynamic(object)
		if err != nil {
			return nil, err
		}
		if _, err := kube.Create(ctx, object, metav1.CreateOptions{}); err != nil {
			return nil, err
		}
		if _, err := events.until(ctx, "add"); err != nil {
			return nil, err
		}
		patch := []byte(`{"metadata":{"labels":{"seen":"yes"}}}`)
		_, err = kube.Patch(ctx, object.GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			return nil, err
		}
		if _, err := events.until(ctx, "update"); err != nil {
			return nil, err
		}
		if err := kube.Delete(ctx, object.GetName(), metav1.DeleteOptions{}); err != nil {
			return nil, err
		}
		if report[kind.Kind], err = events.until(ctx, "delete"); err != nil {
			return nil, err
		}
	}
	return report, nil
}

// metadataOnly reads the objects through the metadata client: one by one, in a list and by a watch.
// It returns the labels by kind.
func metadataOnly(ctx context.Context, files []string) (any, error) {
	resources, err := newResources()
	if err != nil {
		return nil, err
	}
	objects, err := readObjects(files)
	if err != nil {
		return nil, err
	}
	kube, err := metadata.NewForConfig(resources.config)
	if err != nil {
		return nil, err
	}
	report := map[string]map[string]string{}
	for _, object := range objects {
		kind := object.GroupVersionKind()
		mapping, err := resources.mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			return nil, err
		}
		var getter metadata.ResourceInterface = kube.Resource(mapping.Resource)
		if object.GetNamespace() != "" {
			getter = kube.Resource(mapping.Resource).Namespace(object.GetNamespace())
		}
		got, err := getter.Get(ctx, object.GetName(), metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		one := metav1.ListOptions{FieldSelector: "metadata.name=" + object.GetName()}
		list, err := getter.List(ctx, one)
		if err != nil {
			return nil, err
		}
		if len(list.Items) != 1 || list.Items[0].GetUID() != got.GetUID() {
			return nil, fmt.Errorf("%s: the list is %v", kind.Kind, list.Items)
		}
		watching, err := getter.Watch(ctx, one)
		if err != nil {
			return nil, err
		}
		event := <-watching.ResultChan()
		watching.Stop()
		partial, isPartial := event.Object.(*metav1.PartialObjectMetadata)
		if event.Type != watch.Added || !isPartial || partial.GetUID() != got.GetUID() {
			return nil, fmt.Errorf("%s: the watch begins with %v", kind.Kind, event)
		}
		report[kind.Kind] = got.GetLabels()
	}
	return report, nil
}

// recorder notes the queries of the requests.
type recorder struct {
	inner   http.RoundTripper
	lock    sync.Mutex
	queries []map[string][]string
}

func (r *recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	r.lock.Lock()
	r.queries = append(r.queries, request.URL.Query())
	r.lock.Unlock()
	return r.inner.RoundTrip(request)
}

// reflector fills a store by a reflector, and returns the names in the store and the queries that it took.
func reflector(ctx context.Context, files []string) (any, error) {
	resources, err := newResources()
	if err != nil {
		return nil, err
	}
	objects, err := readObjects(files)
	if err != nil {
		return nil, err
	}
	report := map[string]any{}
	for _, object := range objects {
		recorder := &recorder{}
		recorded := *resources
		recorded.config = rest.CopyConfig(resources.config)
		recorded.config.Wrap(func(inner http.RoundTripper) http.RoundTripper {
			recorder.inner = inner
			return recorder
		})
		kube, err := recorded.dynamic(object)
		if err != nil {
			return nil, err
		}
		lists := &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				return kube.List(ctx, options)
			},
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				return kube.Watch(ctx, options)
			},
		}
		store := cache.NewStore(cache.MetaNamespaceKeyFunc)
		kind := &unstructured.Unstructured{}
		running := cache.NewReflectorWithOptions(lists, kind, store, cache.ReflectorOptions{})
		ctx, cancel := context.WithCancel(ctx)
		go running.RunWithContext(ctx)
		key := cache.ObjectName{Namespace: object.GetNamespace(), Name: object.GetName()}.String()
		err = wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(context.Context) (bool, error) {
			_, exists, err := store.GetByKey(key)
			return exists && running.LastSyncResourceVersion() != "", err
		})
		cancel()
		if err != nil {
			return nil, fmt.Errorf("%s: %v: %w", key, store.ListKeys(), err)
		}
		recorder.lock.Lock()
		report[object.GetKind()] = map[string]any{"keys": store.ListKeys(), "queries": recorder.queries}
		recorder.lock.Unlock()
	}
	return report, nil
}
