// The flags with which a tool speaks TLS to a server. Their names are those of redis-cli.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/tls/context.hpp>

#include <memory>

#include "tools/redis/redis_address.hpp"

namespace CLI {
class App;
}

namespace sepal::tools {

// --cacert, --cert, --key and --insecure. `options` outlives `command`.
void add_tls_flags(CLI::App& command, tls::Context::ClientOptions& options);

// Whether --cert and --key were given without each other.
[[nodiscard]] bool half_a_certificate(const tls::Context::ClientOptions& options);

// What a connection to `address` needs: null where it is not TLS. Errors: those of load_for_client().
Result<std::shared_ptr<const tls::Context>> tls_for(const RedisAddress& address,
                                                    const tls::Context::ClientOptions& options);

}  // namespace sepal::tools
