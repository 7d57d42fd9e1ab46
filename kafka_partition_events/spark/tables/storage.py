"""The file system beneath the tables, by Hadoop's interface: local, HDFS, object stores, as Spark has it."""

import contextlib
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlsplit

from pyspark.sql import SparkSession

from kafka_partition_events.spark.errors import SparkJobError
from kafka_partition_events.spark.raised import SPARK_ERRORS

_NO_RENAME: Final = frozenset({"s3", "s3a", "s3n", "gs", "wasb", "wasbs", "oss", "cosn", "obs", "swift"})
"""Object stores, by how Hadoop calls them: there to rename is to copy each file, and then to delete it."""


def require_renames(root: str) -> None:
    """Go on only where a directory takes the place of another one in one step.

    Raises:
        SparkJobError: it is on an object store.
    """
    scheme = urlsplit(root).scheme
    if scheme in _NO_RENAME:
        raise SparkJobError(
            f"{root}: tables in files can't be replaced safely on {scheme}://, for an object store renames "
            "no directory: use --format delta or iceberg, whose tables are in a catalog, or HDFS, or a disk"
        )


class Storage:
    """Files and directories under one root. Names are relative to it, with ``/`` between parts.

    Needs a classic session: Spark Connect has no way to the file system. Thread safe.

    Raises:
        SparkJobError: there is no such file system, or the session is one of Spark Connect.
    """

    def __init__(self, spark: SparkSession, root: str) -> None:
        jvm: Any = getattr(spark, "_jvm", None)
        if jvm is None:
            raise SparkJobError(
                "the fleet pipeline needs a classic Spark session, not one of Spark Connect: run it by "
                "spark-submit (see kpe spark fleet --print-submit)"
            )
        self._path = jvm.org.apache.hadoop.fs.Path
        self._text = jvm.org.apache.commons.io.IOUtils
        configuration = spark._jsc.hadoopConfiguration()  # noqa: SLF001 - PySpark offers no other way
        try:
            path = self._path(root)
            self._files = path.getFileSystem(configuration)
            # On a local disk each file would have another one of checksums. Where Hadoop has no native
            # library, it starts a process for each of both, to set permissions.
            self._files.setWriteChecksum(False)
            self.root = str(self._files.makeQualified(path).toString()).rstrip("/")
        except SPARK_ERRORS as error:
            raise SparkJobError(f"{root} can't be used: {_reason(error)}") from error

    def path(self, name: str = "") -> str:
        """Return the full address of a file or directory."""
        return f"{self.root}/{name}" if name else self.root

    def exists(self, name: str = "") -> bool:
        """Tell whether there is such a file or directory."""
        return bool(self._call("exists", name))

    def matches(self) -> bool:
        """Tell whether there is anything where the root says, which may be a pattern here."""
        return bool(self._call("globStatus", ""))

    def children(self, name: str = "") -> frozenset[str]:
        """Return the names of what is in a directory; of nothing, if it isn't there."""
        if not self.exists(name):
            return frozenset()
        return frozenset(str(found.getPath().getName()) for found in self._call("listStatus", name))

    def make(self, name: str = "") -> None:
        """Make a directory and those above it; nothing happens if it is there."""
        self._call("mkdirs", name)

    def delete(self, name: str) -> None:
        """Delete a file, or a directory with all that is in it; nothing happens if it isn't there."""
        self._call("delete", name, True)

    def move(self, name: str, to: str) -> None:
        """Give a file or directory another name, under which there must be nothing.

        In one step on file systems that promise it: HDFS and local ones do, object stores do not.
        """
        self.make(to.rpartition("/")[0])
        if not self._call("rename", name, self._path(self.path(to))):
            raise SparkJobError(f"{self.path(name)} can't be moved to {self.path(to)}")

    def size(self, name: str) -> int:
        """Return how many bytes a file, or all that is in a directory, has."""
        return int(self._call("getContentSummary", name).getLength())

    def read(self, name: str) -> str:
        """Return the text of a small file."""
        with self._explained(name, " can't be read"):
            stream = self._files.open(self._path(self.path(name)))
            try:
                return str(self._text.toString(stream, "UTF-8"))
            finally:
                stream.close()

    def write(self, name: str, text: str, *, overwrite: bool = True) -> None:
        """Write a small file, in the place of the one that is there. A crash may leave half of it."""
        with self._explained(name, " can't be written"):
            stream = self._files.create(self._path(self.path(name)), overwrite)
            stream.write(bytearray(text.encode()))
            stream.close()

    def create(self, name: str, text: str) -> bool:
        """Write a small file if there is none, and tell whether there was none.

        Of several processes one succeeds, on file systems that promise it: HDFS and local ones do.
        """
        if self.exists(name):
            return False
        try:
            self.write(name, text, overwrite=False)
        except SparkJobError as error:
            if "AlreadyExists" in str(error):
                return False
            raise
        return True

    def _call(self, method: str, name: str, *arguments: Any) -> Any:
        with self._explained(name, f": {method} failed"):
            return getattr(self._files, method)(self._path(self.path(name)), *arguments)

    @contextlib.contextmanager
    def _explained(self, name: str, what: str) -> Iterator[None]:
        try:
            yield
        except SPARK_ERRORS as error:
            raise SparkJobError(f"{self.path(name)}{what}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    java: Any = getattr(error, "java_exception", None)
    return str(error if java is None else java.toString())
