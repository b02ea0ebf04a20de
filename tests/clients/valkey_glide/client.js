// valkey-glide.
'use strict';

const { Batch, Decoder, GlideClient, Logger, ProtocolVersion, Script } = require('@valkey/valkey-glide');
const { port, protocol } = require('../shared/harness.js');
const { main } = require('../shared/plain_tour.js');

// It logs to the standard output, where the driver reads.
Logger.setLoggerConfig('off');

const requestTimeout = 30000; // milliseconds

// The library asks for a password wherever there are credentials.
function connect({ username, password }) {
  return GlideClient.createClient({
    addresses: [{ host: '127.0.0.1', port }],
    credentials: password ? { username, password } : undefined,
    protocol: protocol === 3 ? ProtocolVersion.RESP3 : ProtocolVersion.RESP2,
    requestTimeout,
  });
}

async function run(client, atomic, requests) {
  const batch = new Batch(atomic);
  for (const words of requests) batch.customCommand(words);
  return client.exec(batch, true, { timeout: requestTimeout });
}

main({
  connect,
  ask: (client, words) => client.customCommand(words),
  askBytes: (client, words) => client.customCommand(words, { decoder: Decoder.Bytes }),
  pipeline: (client, requests) => run(client, false, requests),
  transaction: (client, requests) => run(client, true, requests),
  watch: (client, key) => client.watch([key]),
  script: (client, text, key, argument) => client.invokeScript(new Script(text), { keys: [key], args: [argument] }),
  close: async (client) => client.close(),
});
