// Command gitops runs one step of a client of the Kubernetes API, and prints as JSON what the client reports.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// patience bounds one run.
const patience = 2 * time.Minute

// steps are the clients by the first argument.
var steps = map[string]func(context.Context, []string) (any, error){
	"flux-apply":               fluxApply,
	"flux-delete":              fluxDelete,
	"runtime-apply":            runtimeApply,
	"runtime-patch":            runtimePatch,
	"runtime-create-or-update": runtimeCreateOrUpdate,
	"runtime-cache":            runtimeCache,
	"dynamic-apply":            dynamicApply,
	"dynamic-informer":         dynamicInformer,
	"metadata":                 metadataOnly,
	"reflector":                reflector,
}

func main() {
	ctrllog.SetLogger(klog.Background())
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string) error {
	if len(arguments) == 0 || steps[arguments[0]] == nil {
		return fmt.Errorf("no such step: %v", arguments)
	}
	report, err := steps[arguments[0]](ctx, arguments[1:])
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(report)
}

// restConfig returns the configuration of KUBECONFIG, without a limit of requests.
func restConfig() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return config, nil
}

// readObjects reads the objects of those files.
func readObjects(files []string) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		decoder := yaml.NewYAMLOrJSONDecoder(file, 4096)
		for {
			object := &unstructured.Unstructured{}
			if err := decoder.Decode(object); err == io.EOF {
				break
			} else if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			objects = append(objects, object)
		}
		file.Close()
	}
	return objects, nil
}

// versions returns the resource versions of objects by their kinds.
func versions(objects []*unstructured.Unstructured) map[string]string {
	found := map[string]string{}
	for _, object := range objects {
		found[object.GetKind()] = object.GetResourceVersion()
	}
	return found
}
