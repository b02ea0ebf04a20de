#include "tools/redis/tls_flags.hpp"

#include <CLI/CLI.hpp>

namespace sepal::tools {

void add_tls_flags(CLI::App& command, tls::Context::ClientOptions& options) {
  command
      .add_option("--cacert", options.ca_file,
                  "With rediss://, the CA certificates that have signed those of the servers; the system's "
                  "if not given")
      ->type_name("FILE");
  command.add_option("--cert", options.certificate_file, "With rediss://, a certificate of one's own")
      ->type_name("FILE");
  command.add_option("--key", options.key_file, "The key of that certificate")->type_name("FILE");
  command.add_flag_callback(
      "--insecure", [&options] { options.verifies = false; },
      "With rediss://, do not check the certificates of the servers");
}

bool half_a_certificate(const tls::Context::ClientOptions& options) {
  return options.certificate_file.empty() != options.key_file.empty();
}

Result<std::shared_ptr<const tls::Context>> tls_for(const RedisAddress& address,
                                                    const tls::Context::ClientOptions& options) {
  if (!address.tls) return std::shared_ptr<const tls::Context>();
  auto loaded = tls::Context::load_for_client(options);
  if (!loaded) return loaded.error();
  return std::shared_ptr<const tls::Context>(std::move(*loaded));
}

}  // namespace sepal::tools
