#include <sepal/command/observe/latency_events.hpp>
#include <sepal/command/observe/rate_sampler.hpp>
#include <sepal/command/observe/slow_log.hpp>
#include <sepal/command/run/scripts.hpp>
#include <sepal/command/run/services.hpp>
#include <sepal/command/users/acl_log.hpp>
#include <sepal/command/users/login_delay.hpp>
#include <sepal/command/users/users.hpp>
#include <sepal/writers/uploads.hpp>

namespace sepal::command {

template <class Part>
void EndPart<Part>::operator()(Part* part) const {
  delete part;
}
template <class Part, class... Arguments>
Owned<Part> own(Arguments&&... arguments) {
  return Owned<Part>(new Part(std::forward<Arguments>(arguments)...));
}

template struct EndPart<AclLog>;
template struct EndPart<LatencyEvents>;
template struct EndPart<LoginDelay>;
template struct EndPart<RateSampler>;
template struct EndPart<Scripts>;
template struct EndPart<SlowLog>;
template struct EndPart<Users>;
template struct EndPart<writers::Uploads>;

template Owned<AclLog> own<AclLog>();
template Owned<LatencyEvents> own<LatencyEvents>();
template Owned<LoginDelay> own<LoginDelay>();
template Owned<RateSampler> own<RateSampler>();
template Owned<Scripts> own<Scripts, std::size_t>(std::size_t&&);
template Owned<SlowLog> own<SlowLog>();
template Owned<writers::Uploads> own<writers::Uploads, keyspace::Keyspace&>(keyspace::Keyspace&);
template Owned<Users> own<Users, std::string&>(std::string&);

}  // namespace sepal::command
