#include "rendezvous/munge.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <span>
#include <utility>

#include <dlfcn.h>
#include <sys/types.h>
#include <unistd.h>

namespace ddprun {
namespace {

constexpr const char* kMungeLibrary = "libmunge.so.2";
constexpr std::size_t kPayloadBytesMax = 4'096;

// From the manual pages munge(3), munge_ctx(3) and munge_enum(3): the library's binary interface.
using Context = struct munge_ctx*;
enum Outcome : int {  // munge_err_t
  kSuccess = 0,
  kSocket = 6,
  kTimeout = 7,
  kExpired = 15,
  kRewound = 16,
  kReplayed = 17,
};
constexpr int kUidRestriction = 9;  // munge_opt_t

struct Library {
  Context (*ctx_create)() = nullptr;
  void (*ctx_destroy)(Context) = nullptr;
  int (*ctx_set)(Context, int option, ...) = nullptr;
  const char* (*ctx_strerror)(Context) = nullptr;
  int (*encode)(char** credential, Context, const void* payload, int size) = nullptr;
  int (*decode)(const char* credential, Context, void** payload, int* size, uid_t*, gid_t*) =
      nullptr;
  const char* (*strerror)(int) = nullptr;
};

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};

Result<Library> load() {
  void* const handle = ::dlopen(kMungeLibrary, RTLD_NOW | RTLD_LOCAL);  // never unloaded
  if (handle == nullptr) {
    const char* const why = ::dlerror();
    return make_error(
        Errc::kNotFound, fmt::format("MUNGE: {}", why == nullptr ? kMungeLibrary : why));
  }
  Library library;
  bool has_all = true;
  const auto find = [&]<class Function>(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(::dlsym(handle, name));
    has_all = has_all && function != nullptr;
  };
  find(library.ctx_create, "munge_ctx_create");
  find(library.ctx_destroy, "munge_ctx_destroy");
  find(library.ctx_set, "munge_ctx_set");
  find(library.ctx_strerror, "munge_ctx_strerror");
  find(library.encode, "munge_encode");
  find(library.decode, "munge_decode");
  find(library.strerror, "munge_strerror");
  if (has_all) return library;
  return make_error(Errc::kNotFound, fmt::format("MUNGE: {} lacks a function", kMungeLibrary));
}

using OwnedContext = std::unique_ptr<munge_ctx, void (*)(Context)>;

Result<OwnedContext> new_context(const Library& library) {
  OwnedContext context(library.ctx_create(), library.ctx_destroy);
  if (!context) return make_error(Errc::kIo, "MUNGE: no memory is left");
  return context;
}

Error failure(const Library& library, Context context, int outcome) {
  const bool is_silent = outcome == kSocket || outcome == kTimeout;
  const char* const why = library.ctx_strerror(context);
  return make_error(
      is_silent ? Errc::kIo : Errc::kProtocol,
      fmt::format("MUNGE: {}", why == nullptr ? library.strerror(outcome) : why));
}

}  // namespace

Result<std::string> munge_seal(std::string_view payload) {
  const auto library = load();
  if (!library) return library.error();
  auto context = new_context(*library);
  if (!context) return context.error();
  Context const about = context->get();
  char* made = nullptr;
  int outcome = library->ctx_set(about, kUidRestriction, ::geteuid());
  if (outcome == kSuccess) {
    outcome = library->encode(&made, about, payload.data(), static_cast<int>(payload.size()));
  }
  const std::unique_ptr<char, Free> credential(made);
  if (outcome == kSuccess && credential) return std::string(credential.get());
  const Error why = failure(*library, about, outcome);
  return make_error(Errc::kIo, why.detail);
}

Result<std::string> munge_open(const std::string& credential) {
  const auto library = load();
  if (!library) return library.error();
  auto context = new_context(*library);
  if (!context) return context.error();
  void* got = nullptr;
  int size = 0;
  auto user = static_cast<uid_t>(-1);
  auto group = static_cast<gid_t>(-1);
  const int outcome =
      library->decode(credential.c_str(), context->get(), &got, &size, &user, &group);
  const std::unique_ptr<void, Free> payload(got);
  // The library yields the payload of a credential that is genuine but old all the same.
  const bool is_genuine =
      outcome == kSuccess || outcome == kExpired || outcome == kRewound || outcome == kReplayed;
  if (!is_genuine) return failure(*library, context->get(), outcome);
  if (user != ::geteuid()) {
    return make_error(
        Errc::kProtocol,
        fmt::format("it runs as user {}, and this node as user {}", user, ::geteuid()));
  }
  if (payload == nullptr || size < 0 || std::cmp_greater(size, kPayloadBytesMax)) {
    return make_error(Errc::kProtocol, "the credential of another program");
  }
  return std::string(static_cast<const char*>(payload.get()), static_cast<std::size_t>(size));
}

}  // namespace ddprun
