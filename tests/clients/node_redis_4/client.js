// node-redis 4.
'use strict';

const { commandOptions, createClient } = require('redis');

const bytes = commandOptions({ returnBuffers: true });

require('../shared/node_redis.js')(createClient, (client) => ({
  keys: (pattern) => client.keys(bytes, pattern),
  scanDump: (key, iterator) => client.bf.scanDump(bytes, key, iterator),
}));
