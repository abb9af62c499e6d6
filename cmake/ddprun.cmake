# Settings of every target of ddprun: standard, warnings, sanitizers, ccache.
#
#   ddprun_library(agent_core SOURCES … LINKS …)   a static library, also known as ddprun::agent_core;
#                                                  with UNITY its sources are compiled together
#   ddprun_program(ddprun SOURCES … LINKS …)       a program in <build>/bin, installed
#   ddprun_test(agent SOURCES … LINKS … LABELS …)  a GoogleTest program tests/<name>_test

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

find_program(DDPRUN_CCACHE ccache)
if(DDPRUN_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${DDPRUN_CCACHE}")
endif()

include(GNUInstallDirs)
if(SKBUILD)  # a wheel is built: pyproject.toml
  set(CMAKE_INSTALL_BINDIR "${SKBUILD_SCRIPTS_DIR}")
endif()
find_package(Threads REQUIRED)
find_package(Boost 1.81 REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
set(ddprun_fmt fmt::fmt)
set(ddprun_spdlog spdlog::spdlog)
if(DDPRUN_BUNDLE)
  set(ZLIB_USE_STATIC_LIBS ON)
  set(ddprun_fmt fmt::fmt-header-only)
  set(ddprun_spdlog spdlog::spdlog_header_only)
  # Debian's takes fmt's library with it.
  set_target_properties(spdlog::spdlog_header_only PROPERTIES
    INTERFACE_LINK_LIBRARIES "Threads::Threads;fmt::fmt-header-only")
endif()

add_library(ddprun_flags INTERFACE)
# Warnings are for our build only; users of the installed libraries choose their own.
target_include_directories(ddprun_flags INTERFACE
  "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>" "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/ddprun>")
target_compile_features(ddprun_flags INTERFACE cxx_std_20)
target_compile_options(ddprun_flags INTERFACE
  "$<BUILD_INTERFACE:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wconversion;-Woverloaded-virtual;-Wimplicit-fallthrough>")
# g++ 12 sees an overlap in `"text" + string` where there is none (GCC bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(ddprun_flags INTERFACE $<BUILD_INTERFACE:-Wno-restrict>)
endif()
if(DDPRUN_WERROR)
  target_compile_options(ddprun_flags INTERFACE $<BUILD_INTERFACE:-Werror>)
endif()
if(DDPRUN_SANITIZE)
  # A program is sanitized as a whole or not at all, so these apply to everything.
  # -g1: their reports show only functions and lines. Full debugging information is a quarter of the
  # compiler's work and half of each file. For a debugger, use a build without sanitizers.
  add_compile_options(-fsanitize=${DDPRUN_SANITIZE} -fno-omit-frame-pointer -O1 -g1)
  add_link_options(-fsanitize=${DDPRUN_SANITIZE})
  if(DDPRUN_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
  # g++ 12 gives many false warnings about a Result in a std::variant, at -O1 with sanitizers.
  target_compile_options(ddprun_flags INTERFACE -Wno-maybe-uninitialized)
  # g++ 12 warns with -Wtsan that TSan does not support Asio's fences.
  if(DDPRUN_SANITIZE MATCHES "thread")
    target_compile_options(ddprun_flags INTERFACE -Wno-tsan)
  endif()
else()
  # Nobody replaces single functions of ours at load time, so they may be inlined although they are
  # position-independent: 4 % more schedules a second in the simulation.
  add_compile_options(-fno-semantic-interposition)
  # ddprun reads bytes from a network. What a mistake there could be used for is limited: copies of known size
  # are checked when they run, a damaged stack or a damaged table of functions ends the program.
  add_compile_options(-fstack-protector-strong "$<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=3>")
  add_link_options(-Wl,-z,relro,-z,now "$<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-pie>")
endif()

# ddprun_unity(<library> <number>): with DDPRUN_UNITY, compiles that many sources at a time; those with
# definitions or options of their own stay alone. CMake's own UNITY_BUILD would write the clone's path into the
# generated sources, so that no clone could use what ccache has of another one.
function(ddprun_unity library number)
  get_target_property(type ${library} TYPE)
  if(NOT DDPRUN_UNITY OR NOT type STREQUAL "STATIC_LIBRARY")
    return()
  endif()
  get_target_property(sources ${library} SOURCES)
  set(alone)
  set(together)
  foreach(source IN LISTS sources)
    get_source_file_property(definitions ${source} COMPILE_DEFINITIONS)
    get_source_file_property(options ${source} COMPILE_OPTIONS)
    if(definitions OR options)
      list(APPEND alone ${source})
    else()
      file(RELATIVE_PATH path "${PROJECT_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}/${source}")
      list(APPEND together "#include \"${path}\"\n")
    endif()
  endforeach()
  list(LENGTH together count)
  foreach(first RANGE 0 ${count} ${number})
    if(first LESS count)
      list(SUBLIST together ${first} ${number} batch)
      list(JOIN batch "" text)
      set(unit "${CMAKE_CURRENT_BINARY_DIR}/${library}_${first}.cpp")
      file(CONFIGURE OUTPUT "${unit}" CONTENT "${text}" @ONLY)
      list(APPEND alone "${unit}")
    endif()
  endforeach()
  set_target_properties(${library} PROPERTIES SOURCES "${alone}")
  # g++ takes the included sources for headers, which must not have types of their own.
  target_compile_options(${library} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endfunction()

function(ddprun_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "UNITY" "" "SOURCES;LINKS")
  add_library(ddprun_${name} STATIC ${arg_SOURCES})
  if(arg_UNITY)
    ddprun_unity(ddprun_${name} 9)
  endif()
  add_library(ddprun::${name} ALIAS ddprun_${name})
  target_link_libraries(ddprun_${name} PUBLIC ddprun_flags ${arg_LINKS})
endfunction()

# A header agent/fork_server_text.hpp, say, with the text of fork_server.py as a constant.
function(ddprun_embed target file constant)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(READ ${file} text)
  cmake_path(GET file STEM stem)
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE room)
  # A literal may be long, but not longer than 64 KiB in all compilers.
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/embedded/${room}/${stem}_text.hpp @ONLY CONTENT
    "#pragma once\n\n#include <string_view>\n\nnamespace ddprun {\n\ninline constexpr std::string_view ${constant} = R\"embedded(@text@)embedded\";\n\n}  // namespace ddprun\n")
  target_include_directories(${target} PRIVATE ${PROJECT_BINARY_DIR}/embedded)
endfunction()

function(ddprun_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "COMPONENT" "SOURCES;LINKS")
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ddprun_flags ${arg_LINKS})
  install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT ${arg_COMPONENT})
endfunction()

# One CTest entry per GoogleTest program, so that ctest -L unit stays quick to list and run. With
# DDPRUN_TESTS=OPTIMISED a program is built only if it needs torch, simulates or cannot be tested
# in full under sanitizers; the other entries are disabled.
function(ddprun_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT" "SOURCES;LINKS;LABELS")
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  if(DDPRUN_TESTS STREQUAL "OPTIMISED" AND NOT arg_LABELS MATCHES "(^|;)(torch|sim|unsanitized)(;|$)")
    set(left_out EXCLUDE_FROM_ALL)
  endif()
  add_executable(${name}_test ${left_out} ${arg_SOURCES})
  target_link_libraries(${name}_test PRIVATE ddprun_flags ${arg_LINKS} GTest::gmock GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name}_test)
  if(left_out)
    set_tests_properties(${name} PROPERTIES DISABLED ON)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT})
  if("threads" IN_LIST arg_LABELS)
    ddprun_threaded(${name}_test)
  endif()
endfunction()

# Programs used by tests with the label "threads". The target of that name builds them all, for
# ThreadSanitizer: all other code runs on one thread.
function(ddprun_threaded)
  if(NOT TARGET threads)
    add_custom_target(threads)
  endif()
  add_dependencies(threads ${ARGV})
endfunction()
