// Writes to a kubeconfig with the very functions of kubectl, many times over, while others write to it as well.
//
//	kubeconfig -file FILE -writes N
//
// Each write sets the address of the cluster "other" to the next number, having read the one before. It ends with 1 if it ever reads what is no
// kubeconfig, or a number that is not its own last one. Like kubectl it gives up where somebody else has the lock, and unlike kubectl tries again.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

func main() {
	file := flag.String("file", "", "the kubeconfig")
	writes := flag.Int("writes", 1000, "how often it is written")
	flag.Parse()
	options := clientcmd.NewDefaultPathOptions()
	options.GlobalFile, options.EnvVar, options.ExplicitFileFlag = *file, "", ""
	refused := 0
	for number := 0; number < *writes; {
		config, err := options.GetStartingConfig()
		if err != nil {
			fatal("read %d: %v", number, err)
		}
		if last := address(config); last != fmt.Sprintf("https://other:%d", number) {
			fatal("the address is %q after %d writes", last, number)
		}
		cluster := api.NewCluster()
		cluster.Server = fmt.Sprintf("https://other:%d", number+1)
		config.Clusters["other"] = cluster
		switch err := clientcmd.ModifyConfig(options, *config, true); {
		case err == nil:
			number++
		case strings.Contains(err.Error(), "file exists"):
			refused++
		default:
			fatal("write %d: %v", number+1, err)
		}
	}
	fmt.Printf("%d writes, %d times somebody else had the lock\n", *writes, refused)
}

func address(config *api.Config) string {
	if cluster := config.Clusters["other"]; cluster != nil {
		return cluster.Server
	}
	return ""
}

func fatal(format string, arguments ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", arguments...)
	os.Exit(1)
}
