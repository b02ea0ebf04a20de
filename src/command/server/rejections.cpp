#include "command/server/rejections.hpp"

#include <sepal/command/users/acl_log.hpp>

#include "command/run/worker_sums.hpp"

namespace sepal::command {

std::vector<Rejection> rejections(const Services& services) {
  const AclLog& denials = *services.acl_log;
  return {{"maxclients", services.clients.rejected_count()},
          {"protected_mode", services.clients.denied_count()},
          {"maxmemory_clients", services.buffers.closed_count()},
          {"not_logged_in", services.buffers.slow_strangers() + services.buffers.large_strangers()},
          {"request_too_long", sum_of(services, &WorkerStats::too_long_requests)},
          {"http_request", sum_of(services, &WorkerStats::http_requests)},
          {"acl_login", denials.count_of(AclReason::authentication)},
          {"acl_command", denials.count_of(AclReason::command)},
          {"acl_key", denials.count_of(AclReason::key)},
          {"acl_tls_certificate", denials.count_of(AclReason::certificate)}};
}

std::vector<Rejection> refused_adds(const Services& services) {
  return {
      {"full", sum_of(services, RefusedAdd::full)},     {"mirrored", sum_of(services, RefusedAdd::mirrored)},
      {"layers", sum_of(services, RefusedAdd::layers)}, {"memory", sum_of(services, RefusedAdd::memory)},
      {"keys", sum_of(services, RefusedAdd::keys)},     {"journal", sum_of(services, RefusedAdd::journal)}};
}

std::vector<Rejection> failed_handshakes(const Services& services) {
  const HandshakeCounts counts = services.clients.handshake_counts();
  return {{"client_certificate", counts.certificate_refused},
          {"refused_by_client", counts.refused_by_client},
          {"protocol", counts.not_tls},
          {"closed", counts.closed},
          {"timeout", counts.too_slow},
          {"displaced", counts.displaced}};
}

}  // namespace sepal::command
