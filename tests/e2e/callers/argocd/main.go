// Command argocd syncs objects as Argo CD does, by its engine, and prints as JSON what the engine reports.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/argoproj/argo-cd/gitops-engine/pkg/cache"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/diff"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/engine"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/sync"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/utils/kube"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/utils/tracing"
	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2/textlogger"
)

const (
	// patience bounds one run.
	patience = 2 * time.Minute
	// manager is the field manager of Argo CD.
	manager = "argocd-controller"
	// tracking is the annotation by which Argo CD knows the objects of an application.
	tracking = "argocd.argoproj.io/tracking-id"
)

// application is a set of objects in one namespace.
type application struct {
	name      string
	namespace string
	config    *rest.Config
	cache     cache.ClusterCache
	kubectl   *kube.KubectlCmd
	log       logr.Logger
}

func main() {
	namespace := flag.String("namespace", "default", "the namespace of the application")
	serverSide := flag.Bool("server-side", true, "the option ServerSideApply")
	act := flag.Bool("sync", true, "sync, with pruning; otherwise only the differences are printed")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := run(ctx, *namespace, *serverSide, *act, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, namespace string, serverSide, act bool, files []string) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	config.QPS = -1
	log := textlogger.NewLogger(textlogger.NewConfig())
	app := &application{
		name:      "app-of-" + namespace,
		namespace: namespace,
		config:    config,
		kubectl:   &kube.KubectlCmd{Log: log, Tracer: tracing.NopTracer{}},
		log:       log,
	}
	app.cache = cache.NewClusterCache(config, cache.SetLogr(log), cache.SetPopulateResourceInfoHandler(
		func(object *unstructured.Unstructured, _ bool) (any, bool) {
			id := object.GetAnnotations()[tracking]
			return id, id != ""
		}))
	targets, err := app.targets(files)
	if err != nil {
		return err
	}
	report := map[string]any{}
	if act {
		gitOps := engine.NewEngine(config, app.cache, engine.WithLogr(log))
		stop, err := gitOps.Run()
		if err != nil {
			return err
		}
		defer stop()
		results, err := gitOps.Sync(ctx, targets, app.isManaged, "revision", namespace,
			sync.WithPrune(true), sync.WithLogr(log), sync.WithServerSideApply(serverSide),
			sync.WithServerSideApplyManager(manager))
		if err != nil {
			return err
		}
		synced := map[string]string{}
		for _, result := range results {
			synced[result.ResourceKey.Kind] = fmt.Sprintf("%s: %s", result.Status, result.Message)
		}
		report["synced"] = synced
	} else if report["differences"], err = app.differences(targets); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(report)
}

// targets reads the objects of the files, and marks them as the application's.
func (a *application) targets(files []string) ([]*unstructured.Unstructured, error) {
	var targets []*unstructured.Unstructured
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		objects, err := kube.SplitYAML(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		targets = append(targets, objects...)
	}
	for _, target := range targets {
		annotations := target.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[tracking] = a.id(kube.GetResourceKey(target))
		target.SetAnnotations(annotations)
	}
	return targets, nil
}

func (a *application) id(key kube.ResourceKey) string {
	return fmt.Sprintf("%s:%s/%s:%s/%s", a.name, key.Group, key.Kind, a.namespace, key.Name)
}

func (a *application) isManaged(resource *cache.Resource) bool {
	return resource.Info == a.id(resource.ResourceKey())
}

// differences returns the kinds that differ from their targets, by each way in which Argo CD compares.
func (a *application) differences(targets []*unstructured.Unstructured) (map[string][]string, error) {
	if err := a.cache.EnsureSynced(); err != nil {
		return nil, err
	}
	live, err := a.cache.GetManagedLiveObjs(targets, a.isManaged)
	if err != nil {
		return nil, err
	}
	reconciled := sync.Reconcile(targets, live, a.namespace, a.cache)
	applier, cleanup, err := a.kubectl.ManageServerSideDiffDryRuns(a.config)
	if err != nil {
		return nil, err
	}
	defer cleanup()
	common := []diff.Option{
		diff.WithLogr(a.log), diff.WithGVKParser(a.cache.GetGVKParser()), diff.WithManager(manager),
	}
	ways := map[string][]diff.Option{
		"threeWay":        nil,
		"structuredMerge": {diff.WithStructuredMergeDiff(true)},
		"serverSide": {
			diff.WithServerSideDiff(true), diff.WithIgnoreMutationWebhook(true),
			diff.WithServerSideDryRunner(diff.NewK8sServerSideDryRunner(applier)),
		},
	}
	found := map[string][]string{}
	for way, options := range ways {
		result, err := diff.DiffArray(reconciled.Target, reconciled.Live, append(options, common...)...)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", way, err)
		}
		found[way] = []string{}
		for i, difference := range result.Diffs {
			if !difference.Modified {
				continue
			}
			object := reconciled.Target[i]
			if object == nil {
				object = reconciled.Live[i]
			}
			found[way] = append(found[way], object.GetKind())
			a.log.Info("it differs", "way", way, "kind", object.GetKind(),
				"live", string(difference.NormalizedLive), "predicted", string(difference.PredictedLive))
		}
	}
	return found, nil
}
