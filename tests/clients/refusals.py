"""What each library makes of an error inside a list: the table "A refusal inside a reply" of docs/clients.md.

For each client a program, and what it prints. The filter `full` has the item `a` and refuses each new one. The filter `mirrored`
does, too, and answers each item of a list, so that the error is not the last element.
"""

NODE_IOREDIS = """
import Redis from '%s';
const client = new Redis({ port: 6379 });
const replies = await client.call('BF.INSERT', 'full', 'ITEMS', 'a', 'b');
console.log(replies[0], replies[1] instanceof Error);
client.disconnect();
"""
NODE_REDIS = """
import { createClient } from 'redis';
const client = createClient({ url: 'redis://127.0.0.1:6379'%s });
await client.connect();
const replies = await client.bf.insert('full', ['a', 'b']);
console.log(replies[0], replies[1] instanceof Error || replies[1]);
await client.quit();
"""

REFUSALS = {
    "redis_py": ("""
import redis
replies = redis.Redis(port=6379).execute_command("BF.INSERT", "full", "ITEMS", "a", "b")
print(replies[0], isinstance(replies[1], redis.ResponseError))
""", "0 True\n"),
    "ioredis": (NODE_IOREDIS % "ioredis", "0 true\n"),
    "iovalkey": (NODE_IOREDIS % "iovalkey", "0 true\n"),
    "node_redis_4": (NODE_REDIS % "", "false false\n"),
    "node_redis_5": (NODE_REDIS % ", RESP: 3", "false true\n"),
    "valkey_glide": ("""
import { GlideClient, Logger } from '@valkey/valkey-glide';
Logger.setLoggerConfig('off');
const client = await GlideClient.createClient({ addresses: [{ host: '127.0.0.1', port: 6379 }] });
await client.customCommand(['BF.INSERT', 'mirrored', 'ITEMS', 'b', 'a']).catch(() => console.log('raised'));
console.log(await client.customCommand(['PING']));
client.close();
""", "raised\nPONG\n"),
    # The next request gets the rest of the list.
    "lua_redis": ("""
local redis = require("redis")
redis.commands.bfinsert = redis.command("BF.INSERT")
local client = redis.connect("127.0.0.1", 6379)
print(pcall(client.bfinsert, client, "full", "ITEMS", "a", "b") and "answered" or "raised", client:ping())
pcall(client.bfinsert, client, "mirrored", "ITEMS", "b", "a")
print(client:ping())
""", "raised\ttrue\nfalse\n"),
    "perl_redis": ("""
use Redis;
my $redis = Redis->new(server => "127.0.0.1:6379");
my $insert = "BF.INSERT";
print eval { $redis->$insert("full", "ITEMS", "a", "b"); 1 } ? "answered" : "raised", " ", $redis->echo("x"), "\\n";
eval { $redis->$insert("mirrored", "ITEMS", "b", "a") };
print $redis->echo("x"), "\\n";
""", "raised x\n0\n"),
    "redigo": ("""
package main

import (
	"fmt"

	"github.com/gomodule/redigo/redis"
)

func main() {
	client, _ := redis.Dial("tcp", "127.0.0.1:6379")
	replies, err := redis.Values(client.Do("BF.INSERT", "full", "ITEMS", "a", "b"))
	_, refused := replies[1].(redis.Error)
	fmt.Println(refused, err)
	numbers, err := redis.Ints(client.Do("BF.INSERT", "full", "ITEMS", "a", "b"))
	fmt.Println(numbers, err != nil)
}
""", "true <nil>\n[0 0] true\n"),
    "phpredis": ("""<?php
$client = new Redis();
$client->connect('127.0.0.1', 6379);
echo json_encode($client->rawCommand('BF.INSERT', 'full', 'ITEMS', 'a', 'b')), "\\n";
""", "[0,false]\n"),
    "predis": ("""<?php
require 'Predis/Autoloader.php';
Predis\\Autoloader::register();
$client = new Predis\\Client(['port' => 6379]);
$replies = $client->executeCommand(new Predis\\Command\\RawCommand(['BF.INSERT', 'full', 'ITEMS', 'a', 'b']));
echo $replies[0], ' ', get_class($replies[1]), "\\n";
""", "0 Predis\\Response\\Error\n"),
    "redis_rb": ("""
require "redis"
replies = Redis.new(port: 6379).call("BF.INSERT", "full", "ITEMS", "a", "b")
puts "#{replies[0]} #{replies[1].is_a?(Redis::CommandError)}"
""", "0 true\n"),
    "hiredis": ("""
#include <hiredis/hiredis.h>
#include <stdio.h>
int main(void) {
  redisContext* client = redisConnect("127.0.0.1", 6379);
  redisReply* reply = redisCommand(client, "BF.INSERT full ITEMS a b");
  printf("%d %lld\\n", reply->element[1]->type == REDIS_REPLY_ERROR, reply->element[1]->integer);
  freeReplyObject(reply);
  redisFree(client);
}
""", "1 0\n"),
}
