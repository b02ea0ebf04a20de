// ioredis.
'use strict';

require('../shared/ioredis.js')(require('ioredis'));
