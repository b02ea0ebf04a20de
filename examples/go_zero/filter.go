// The Bloom filter of go-zero, unchanged, on Sepal; then moved into a filter of Sepal by BF.IMPORTBITMAP.
// docs/guides/moving-from-a-bitmap.md explains it.
//
// Needs redigo and murmur3 (Debian: golang-github-gomodule-redigo-dev, golang-github-spaolacci-murmur3-dev), and a
// sepald at SEPAL_HOST and SEPAL_PORT (127.0.0.1 and 6379 if not set).
package main

import (
	"fmt"
	"log"
	"net"
	"os"

	"github.com/gomodule/redigo/redis"
	"github.com/spaolacci/murmur3"
)

const (
	bitmap  = "goz:orders:bits"
	filter  = "goz:orders"
	count   = 10000
	absent  = 100000
	bits    = 20 * count
	probes  = 14 // go-zero calls them maps
	setText = `
for _, offset in ipairs(ARGV) do
	redis.call("setbit", KEYS[1], offset, 1)
end
`
	testText = `
for _, offset in ipairs(ARGV) do
	if tonumber(redis.call("getbit", KEYS[1], offset)) == 0 then
		return false
	end
end
return true
`
)

var (
	setScript  = redis.NewScript(1, setText)
	testScript = redis.NewScript(1, testText)
)

// go-zero's getLocations, and the key in front of them.
func arguments(item string) redis.Args {
	words := redis.Args{bitmap}
	data := []byte(item)
	for i := byte(0); i < probes; i++ {
		words = append(words, murmur3.Sum64(append(data, i))%bits)
	}
	return words
}

func addToBitmap(connection redis.Conn, item string) {
	if _, err := setScript.Do(connection, arguments(item)...); err != nil {
		log.Fatal(err)
	}
}

func isInBitmap(connection redis.Conn, item string) bool {
	// A script that returns false answers nil.
	found, err := redis.Bool(testScript.Do(connection, arguments(item)...))
	if err != nil && err != redis.ErrNil {
		log.Fatal(err)
	}
	return found
}

func isInFilter(connection redis.Conn, item string) bool {
	return ask(connection, "BF.EXISTS", filter, item)
}

// The answer of a command whose answer is 0 or 1.
func ask(connection redis.Conn, command string, words ...interface{}) bool {
	answer, err := redis.Bool(connection.Do(command, words...))
	if err != nil {
		log.Fatal(err)
	}
	return answer
}

func order(number int) string { return fmt.Sprintf("order-%d", number) }

// How many of the orders are known, and how many others are called known.
func report(name string, connection redis.Conn, known func(redis.Conn, string) bool) {
	present, wrong := 0, 0
	for number := 0; number < count+absent; number++ {
		if !known(connection, order(number)) {
			continue
		}
		if number < count {
			present++
		} else {
			wrong++
		}
	}
	fmt.Printf("%s: %d of %d orders known, and %d of %d others\n", name, present, count, wrong, absent)
}

func environment(name, other string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return other
}

func main() {
	address := net.JoinHostPort(environment("SEPAL_HOST", "127.0.0.1"), environment("SEPAL_PORT", "6379"))
	connection, err := redis.Dial("tcp", address)
	if err != nil {
		log.Fatal(err)
	}
	defer connection.Close()

	for number := 0; number < count; number++ {
		addToBitmap(connection, order(number))
	}
	report("bitmap", connection, isInBitmap)

	_, err = connection.Do("BF.IMPORTBITMAP", filter, bitmap, "SCHEME", "go-zero", "BITS", bits, "CAPACITY", count)
	if err != nil {
		log.Fatal(err)
	}
	report("filter", connection, isInFilter)

	// New orders go to the filter, which grows. The bitmap is not needed any more.
	ask(connection, "DEL", bitmap)
	fmt.Println("new order added:", ask(connection, "BF.ADD", filter, "order-new"))
	fmt.Println("new order known:", isInFilter(connection, "order-new"))
	ask(connection, "DEL", filter)
}
