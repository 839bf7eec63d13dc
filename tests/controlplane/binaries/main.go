// One binary that holds a whole Kubernetes control plane and its client.
//
// The first argument, or the name that the binary was started by, picks the
// program: the rest of the arguments are that program's own. Linking them into
// one file compiles the code that they share once, which is most of it.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"

	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
)

var programs = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllermanager.NewControllerManagerCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
}

func main() {
	name := filepath.Base(os.Args[0])
	if !known(name) && len(os.Args) > 1 {
		os.Args = os.Args[1:]
		name = filepath.Base(os.Args[0])
	}
	switch {
	case name == "etcd":
		etcdmain.Main(os.Args)
	case name == "kubectl":
		if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
			kubectlutil.CheckErr(err)
		}
	case name == "check-evictions":
		if err := checkEvictions(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case name == "apply":
		if err := apply(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case programs[name] != nil:
		os.Exit(cli.Run(programs[name]()))
	default:
		fmt.Fprintln(os.Stderr, "usage: controlplane etcd|kube-apiserver|kube-controller-manager|kube-scheduler|kubectl|check-evictions|apply ARGUMENTS")
		os.Exit(2)
	}
}

func known(name string) bool {
	return name == "etcd" || name == "kubectl" || name == "check-evictions" || name == "apply" || programs[name] != nil
}
