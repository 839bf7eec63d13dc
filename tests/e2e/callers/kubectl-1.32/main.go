// kubectl 1.32, and its library for drains as others link it.
//
// `drain-library NODE TIMEOUT` drains a node by k8s.io/kubectl/pkg/drain with the kubeconfig of the
// environment. All other arguments are kubectl's.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/drain"
)

func main() {
	if len(os.Args) == 4 && os.Args[1] == "drain-library" {
		if err := drainNode(os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
}

func drainNode(node, timeout string) error {
	patience, err := time.ParseDuration(timeout)
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	helper := &drain.Helper{
		Ctx:                 context.Background(),
		Client:              client,
		Force:               true,
		IgnoreAllDaemonSets: true,
		DeleteEmptyDirData:  true,
		GracePeriodSeconds:  -1,
		Timeout:             patience,
		Out:                 os.Stdout,
		ErrOut:              os.Stderr,
	}
	return drain.RunNodeDrain(helper, node)
}
