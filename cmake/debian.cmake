# Debian packages, written by `cpack -G DEB` in a build directory: ddprun, and libddprun-dev if torch was there to build
# the training kit. ddptrain is in neither, because it loads torch from the environment that it was built with.
#
# Included last, when every rule of installation is known.

set(CPACK_PACKAGE_CONTACT "the ddprun authors")
set(CPACK_PACKAGING_INSTALL_PREFIX "/usr")
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_COMPONENTS_ALL launcher slurm docs)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)

set(CPACK_DEBIAN_PROGRAMS_PACKAGE_NAME ddprun)
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_SHLIBDEPS ON)
# What some jobs need, and is loaded by name.
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_RECOMMENDS "libssl3, libarchive13, libmunge2, python3")

set(CPACK_DEBIAN_KIT_PACKAGE_NAME libddprun-dev)
set(CPACK_DEBIAN_KIT_PACKAGE_SECTION libdevel)
string(JOIN ", " CPACK_DEBIAN_KIT_PACKAGE_DEPENDS
  libboost1.81-dev libcli11-dev libfmt-dev libjpeg62-turbo-dev libpng-dev libspdlog-dev libyaml-cpp-dev
  nlohmann-json3-dev zlib1g-dev)
if(DDPRUN_TRAINER)
  list(APPEND CPACK_COMPONENTS_ALL kit)
endif()

include(CPack)
cpack_add_component_group(programs DESCRIPTION "${PROJECT_DESCRIPTION}")
cpack_add_component(launcher GROUP programs)
cpack_add_component(slurm GROUP programs)
cpack_add_component(docs GROUP programs)
cpack_add_component(kit DESCRIPTION "The training kit of ddprun as a library, for CMake's find_package(ddprun)")
