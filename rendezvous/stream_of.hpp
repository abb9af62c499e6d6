#pragma once

// Asio closes a descriptor that it was given only once it watches it. If the kernel refuses that
// (no memory, or the limit of epoll), Asio throws and the descriptor would stay open.

#include "base/descriptor.hpp"

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/system/error_code.hpp>

#include <utility>

namespace ddprun {

/// Gives `descriptor` to `stream`, or closes it: then yields why Asio refused it.
template <class Stream>
boost::system::error_code give_to(Stream& stream, Descriptor descriptor) {
  boost::system::error_code refused;
  static_cast<void>(stream.assign(descriptor.get(), refused));
  if (!refused) static_cast<void>(descriptor.release());
  return refused;
}

/// A stream that owns `descriptor`. `context`: an io_context or an executor. Throws what Asio
/// throws, and then has closed the descriptor.
template <class Stream = boost::asio::posix::stream_descriptor, class Context>
Stream stream_of(Context&& context, Descriptor descriptor) {
  Stream stream(std::forward<Context>(context), descriptor.get());
  static_cast<void>(descriptor.release());
  return stream;
}

}  // namespace ddprun
