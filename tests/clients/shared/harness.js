// Parts of a tour, for the programs in JavaScript.
'use strict';

const assert = require('node:assert');
const { setTimeout: pause } = require('node:timers/promises');

const bytes = (length, byte) => Buffer.from(Array.from({ length }, (_, at) => byte(at)));

const port = Number(process.env.SEPAL_PORT);
const password = process.env.SEPAL_PASSWORD;
const user = process.env.SEPAL_USER;
const userPassword = process.env.SEPAL_USER_PASSWORD;
const protocol = Number(process.env.SEPAL_PROTOCOL);
const scripts = Boolean(process.env.SEPAL_SCRIPTS);
const addScript = "return redis.call('BF.ADD', KEYS[1], ARGV[1])";
const binaryKey = Buffer.concat([Buffer.from('binary:'), bytes(256, (at) => at)]);
const binaryItem = bytes(256, (at) => 255 - at);
const pipelineDepth = 10000;
const batchItems = 100000;

function ok(part) {
  console.log('ok ' + part);
}

const names = (prefix, count) => Array.from({ length: count }, (_, at) => prefix + at);

// Answers 1 and true for "new" count alike: RESP2 has numbers, RESP3 booleans.
const ones = (replies) => replies.map(Number);

// A filter of 1% may call some new items known.
function mostlyNew(replies, count) {
  assert.strictEqual(replies.length, count);
  assert(ones(replies).filter((reply) => reply === 1).length > 0.97 * count);
}

// Adds w:0, w:1, ... until the process is killed. `add` rejects while the server is away.
async function writeForever(add) {
  for (let number = 0; ; ++number) {
    for (;;) {
      try {
        await add('w:' + number);
        break;
      } catch {
        await pause(20);
      }
    }
    process.stdout.write(number + '\n');
  }
}

// Runs the program that the first word names.
function main(tour, write) {
  const run = process.argv[2] === 'write' ? write : tour;
  run().then(
    () => process.exit(0),
    (error) => {
      console.log(error);
      process.exit(1);
    },
  );
}

module.exports = {
  addScript, batchItems, binaryItem, binaryKey, main, mostlyNew, names, ok, ones, password, pipelineDepth, port, protocol, scripts,
  user, userPassword, writeForever,
};
