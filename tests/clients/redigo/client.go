// redigo, as Debian packages it.
package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"reflect"
	"strings"
	"syscall"
	"time"

	"github.com/gomodule/redigo/redis"
)

const (
	pipelineDepth = 10000
	batchItems    = 100000
	// A filter of 1% may call so many new items known.
	newMin    = 0.97
	addScript = "return redis.call('BF.ADD', KEYS[1], ARGV[1])"
)

var (
	password     = os.Getenv("SEPAL_PASSWORD")
	user         = os.Getenv("SEPAL_USER")
	userPassword = os.Getenv("SEPAL_USER_PASSWORD")
)

func ok(part string) {
	fmt.Println("ok " + part)
}

func fail(what string, got interface{}) {
	fmt.Printf("%s: %v\n", what, got)
	os.Exit(1)
}

func expect(wanted interface{}, what string) func(interface{}, error) {
	return func(got interface{}, err error) {
		if err != nil {
			fail(what, err)
		}
		if !reflect.DeepEqual(got, wanted) {
			fail(what, got)
		}
	}
}

// The request must fail, with an error that has the text.
func refused(text string, what string) func(interface{}, error) {
	return func(got interface{}, err error) {
		if err == nil || !strings.Contains(err.Error(), text) {
			fail(what, err)
		}
	}
}

func list(numbers ...int64) []interface{} {
	values := make([]interface{}, len(numbers))
	for i, number := range numbers {
		values[i] = number
	}
	return values
}

func expectMostlyNew(replies []interface{}, count int, what string) {
	ones := 0
	for _, reply := range replies {
		if reply == int64(1) {
			ones++
		}
	}
	if len(replies) != count || float64(ones) <= newMin*float64(count) {
		fail(what, ones)
	}
}

func dial(options ...redis.DialOption) (redis.Conn, error) {
	return redis.Dial("tcp", "127.0.0.1:"+os.Getenv("SEPAL_PORT"), options...)
}

func connect(options ...redis.DialOption) redis.Conn {
	client, err := dial(options...)
	if err != nil {
		fail("connect", err)
	}
	return client
}

func auth() {
	expectRefusedLogin := func(text string, options ...redis.DialOption) {
		client, err := dial(options...)
		if err == nil {
			_, err = client.Do("PING")
		}
		refused(text, "a login")(nil, err)
	}
	expectRefusedLogin("NOAUTH")
	expectRefusedLogin("WRONGPASS", redis.DialPassword("wrong"))
	expectRefusedLogin("WRONGPASS", redis.DialUsername("default"), redis.DialPassword("wrong"))
	expect("PONG", "a password")(connect(redis.DialPassword(password)).Do("PING"))
	expect("PONG", "a user and a password")(connect(redis.DialUsername("default"), redis.DialPassword(password)).Do("PING"))
	ok("auth")
	other := connect(redis.DialUsername(user), redis.DialPassword(userPassword))
	expect([]byte(user), "another user")(other.Do("ACL", "WHOAMI"))
	ok("user")
}

func checkInfo(client redis.Conn) {
	fields := map[string]interface{}{}
	values, err := redis.Values(client.Do("BF.INFO", "users"))
	if err != nil {
		fail("BF.INFO", err)
	}
	for i := 0; i+1 < len(values); i += 2 {
		name, _ := redis.String(values[i], nil)
		fields[name] = values[i+1]
	}
	for name, wanted := range map[string]int64{"Capacity": 1000, "Expansion rate": 4, "Number of items inserted": 2} {
		expect(wanted, name)(fields[name], nil)
	}
	expect(list(2), "BF.INFO ITEMS")(client.Do("BF.INFO", "users", "ITEMS"))
}

// Copies a filter piece by piece, with BF.SCANDUMP or CF.SCANDUMP.
func moveFilter(client redis.Conn, family string, source string, target string) {
	for iterator := int64(0); ; {
		var data []byte
		values, err := redis.Values(client.Do(family+".SCANDUMP", source, iterator))
		if err == nil {
			_, err = redis.Scan(values, &iterator, &data)
		}
		if err != nil {
			fail(family+".SCANDUMP", err)
		}
		if iterator == 0 {
			break
		}
		expect("OK", family+".LOADCHUNK")(client.Do(family+".LOADCHUNK", target, iterator, data))
	}
	expect(list(1, 1, 0), "a filter that was moved")(client.Do(family+".MEXISTS", target, "a", "b", "c"))
}

func cuckoo(client redis.Conn) {
	expect("OK", "CF.RESERVE")(client.Do("CF.RESERVE", "carts", 1000, "BUCKETSIZE", 4, "EXPANSION", 2))
	expect(int64(1), "CF.ADD")(client.Do("CF.ADD", "carts", "a"))
	expect(int64(0), "CF.ADDNX")(client.Do("CF.ADDNX", "carts", "a"))
	expect(list(1, 1), "CF.INSERT")(client.Do("CF.INSERT", "carts", "ITEMS", "a", "b"))
	expect(list(0, 1), "CF.INSERTNX")(client.Do("CF.INSERTNX", "carts", "ITEMS", "b", "c"))
	expect(int64(2), "CF.COUNT")(client.Do("CF.COUNT", "carts", "a"))
	expect(true, "CF.DEL")(asBool(client.Do("CF.DEL", "carts", "c")))
	expect(false, "CF.DEL of an item that has gone")(asBool(client.Do("CF.DEL", "carts", "c")))
	refused("Not found", "CF.DEL of no filter")(client.Do("CF.DEL", "nothing", "c"))
	moveFilter(client, "CF", "carts", "carts moved")
	// Without an option, the fields of RedisBloom and no other: go-redis fails on a name that it does not know.
	values, err := redis.Values(client.Do("CF.INFO", "carts"))
	if err != nil || len(values) != 16 {
		fail("CF.INFO", values)
	}
	expect("Number of items inserted", "CF.INFO")(redis.String(values[6], nil))
	expect(list(3, 1), "CF.INFO")([]interface{}{values[7], values[9]}, nil)
}

func commands(client redis.Conn) {
	expect("OK", "BF.RESERVE")(client.Do("BF.RESERVE", "users", 0.001, 1000, "EXPANSION", 4))
	expect("OK", "BF.RESERVE NONSCALING")(client.Do("BF.RESERVE", "fixed", 0.01, 100, "NONSCALING"))
	expect(int64(1), "BF.ADD")(client.Do("BF.ADD", "users", "alice"))
	expect(list(0, 1), "BF.MADD")(client.Do("BF.MADD", "users", "alice", "bob"))
	expect(list(1, 1), "BF.INSERT")(client.Do("BF.INSERT", "other", "CAPACITY", 500, "ERROR", 0.01, "ITEMS", "x", "y"))
	expect(true, "BF.EXISTS")(asBool(client.Do("BF.EXISTS", "users", "alice")))
	expect(false, "BF.EXISTS of a new item")(asBool(client.Do("BF.EXISTS", "users", "carol")))
	expect(list(1, 0), "BF.MEXISTS")(client.Do("BF.MEXISTS", "users", "alice", "carol"))
	expect(int64(2), "BF.CARD")(client.Do("BF.CARD", "users"))
	expect(list(1, 0), "BF.CHECK")(client.Do("BF.CHECK", "users", "alice", "carol"))
	expect(list(3, 2, 0), "BF.FIND")(client.Do("BF.FIND", 3, "nothing", "other", "users", "ITEMS", "alice", "x", "carol"))
	expect("OK", "BF.MERGE")(client.Do("BF.MERGE", "union", 1, "users"))
	expect(list(1, 0), "BF.MEXISTS of a union")(client.Do("BF.MEXISTS", "union", "alice", "carol"))
	expect(int64(1), "DEL")(client.Do("DEL", "union"))
	checkInfo(client)
	expect(list(1, 1), "BF.MADD")(client.Do("BF.MADD", "source", "a", "b"))
	moveFilter(client, "BF", "source", "moved")
	cuckoo(client)
	ok("commands")
	refused("item exists", "a second BF.RESERVE")(client.Do("BF.RESERVE", "users", 0.001, 1000))
	refused("not found", "NOCREATE")(client.Do("BF.INSERT", "nothing", "NOCREATE", "ITEMS", "x"))
	refused("not found", "BF.CHECK without a filter")(client.Do("BF.CHECK", "nothing", "x"))
	refused("unknown command", "an unknown command")(client.Do("NOSUCH"))
	ok("errors")
}

func asBool(reply interface{}, err error) (interface{}, error) {
	return redis.Bool(reply, err)
}

func binary(client redis.Conn) {
	key := []byte("binary:")
	var item []byte
	for value := 0; value < 256; value++ {
		key = append(key, byte(value))
		item = append(item, byte(255-value))
	}
	expect(list(1, 1), "binary items")(client.Do("BF.MADD", key, item, ""))
	expect(int64(1), "a binary item")(client.Do("BF.EXISTS", key, item))
	expect([]interface{}{key}, "a binary key")(client.Do("KEYS", "binary:*"))
	ok("binary")
}

func pipeline(client redis.Conn) {
	for number := 0; number < pipelineDepth; number++ {
		if err := client.Send("BF.ADD", "piped", fmt.Sprint("p:", number)); err != nil {
			fail("send", err)
		}
	}
	// The empty command gives the replies of all that was sent.
	replies, err := redis.Values(client.Do(""))
	if err != nil {
		fail("the pipeline", err)
	}
	expectMostlyNew(replies, pipelineDepth, "new items")
	ok("pipeline")
}

func transaction(client redis.Conn) {
	expect("OK", "WATCH")(client.Do("WATCH", "counted"))
	client.Send("MULTI")
	client.Send("BF.ADD", "counted", "a")
	client.Send("BF.EXISTS", "counted", "a")
	expect(list(1, 1), "a transaction")(client.Do("EXEC"))
	expect("OK", "WATCH")(client.Do("WATCH", "counted"))
	other := connect(redis.DialPassword(password))
	expect(int64(1), "an add of another client")(other.Do("BF.ADD", "counted", "b"))
	client.Send("MULTI")
	client.Send("BF.ADD", "counted", "c")
	expect(nil, "EXEC after a watched key changed")(client.Do("EXEC"))
	expect(int64(0), "what was not done")(client.Do("BF.EXISTS", "counted", "c"))
	ok("transaction")
}

func script(client redis.Conn) {
	add := redis.NewScript(1, addScript)
	// The library asks with EVALSHA, and with EVAL where the server does not know the script.
	expect(int64(1), "a new script")(add.Do(client, "scripted", "a"))
	expect(int64(0), "a known script")(add.Do(client, "scripted", "a"))
	ok("script")
}

func batch(client redis.Conn) {
	expect("OK", "BF.RESERVE")(client.Do("BF.RESERVE", "batch", 0.001, batchItems))
	words := redis.Args{}.Add("batch")
	for number := 0; number < batchItems; number++ {
		words = words.Add(fmt.Sprint("b:", number))
	}
	replies, err := redis.Values(client.Do("BF.MADD", words...))
	if err != nil {
		fail("BF.MADD", err)
	}
	expectMostlyNew(replies, batchItems, "new items")
	ok("batch")
}

func tour() {
	auth()
	client := connect(redis.DialPassword(password))
	commands(client)
	binary(client)
	pipeline(client)
	transaction(client)
	script(client)
	batch(client)
}

// Whether the server is away, or loads its data.
func isAway(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE) || strings.HasPrefix(err.Error(), "LOADING")
}

// The pool of the library connects again: it drops a connection that had an error.
func write() {
	pool := redis.Pool{MaxIdle: 1, Dial: func() (redis.Conn, error) { return dial(redis.DialPassword(password)) }}
	for number := 0; ; {
		client := pool.Get()
		_, err := client.Do("BF.ADD", "written", fmt.Sprint("w:", number))
		client.Close()
		switch {
		case err == nil:
			fmt.Println(number)
			number++
		case isAway(err):
			time.Sleep(20 * time.Millisecond)
		default:
			fail("an add", err)
		}
	}
}

func main() {
	if os.Args[1] == "write" {
		write()
	}
	tour()
}
