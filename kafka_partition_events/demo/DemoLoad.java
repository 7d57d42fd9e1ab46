import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteOrder;
import java.nio.LongBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Collectors;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** load.py with Apache Kafka's own producer: the same orders, the same answers, the same file. */
public final class DemoLoad {
    private static final int COLUMNS = 4;
    private static final int DELIVERED = 1;
    private static final int FAILED = 2;
    private static final int KEYS = 1_000;
    private static final long LONGEST_WAIT = 50_000_000L;

    private final CountDownLatch begun = new CountDownLatch(1);
    private final Map<String, Integer> causes = new ConcurrentHashMap<>();
    private final LongBuffer cells;
    private final String topic;
    private final int valueBytes;
    private volatile Schedule schedule;
    private volatile boolean keyed;
    private volatile boolean ended;

    /** When the first record is due, in nanoseconds, and how many in a second from then on. */
    private record Schedule(long begin, long rate) {}

    private DemoLoad(String topic, Path tape, int valueBytes) throws Exception {
        this.topic = topic;
        this.valueBytes = valueBytes;
        try (FileChannel file = FileChannel.open(tape, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            cells = file.map(FileChannel.MapMode.READ_WRITE, 0, file.size())
                .order(ByteOrder.nativeOrder()).asLongBuffer();
        }
    }

    /** TOPIC TAPE VALUE_BYTES NAME=VALUE...; the last ones are settings of the producer. */
    public static void main(String[] words) throws Exception {
        Properties settings = new Properties();
        settings.put("key.serializer", ByteArraySerializer.class.getName());
        settings.put("value.serializer", ByteArraySerializer.class.getName());
        for (int i = 3; i < words.length; i++) {
            String[] setting = words[i].split("=", 2);
            settings.put(setting[0], setting[1]);
        }
        DemoLoad load = new DemoLoad(words[0], Path.of(words[1]), Integer.parseInt(words[2]));
        load.run(new KafkaProducer<>(settings));
    }

    private void run(KafkaProducer<byte[], byte[]> producer) throws Exception {
        producer.partitionsFor(topic);
        Thread orders = new Thread(this::listen);
        orders.setDaemon(true);
        orders.start();
        System.out.println("{\"kind\": \"ready\"}");
        begun.await();
        int sent = sendPaced(producer);
        producer.flush(); // the delivery limit bounds it
        String failed = causes.entrySet().stream()
            .map(each -> String.format(Locale.ROOT, "\"%s\": %d", each.getKey(), each.getValue()))
            .collect(Collectors.joining(", "));
        System.out.printf(Locale.ROOT, "{\"kind\": \"done\", \"sent\": %d, \"causes\": {%s}}%n", sent, failed);
        producer.close();
    }

    private void listen() {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        in.lines().takeWhile(line -> !line.equals("end")).forEach(line -> {
            if (line.equals("keys")) {
                keyed = true;
            } else {
                String[] words = line.split(" ");
                schedule = new Schedule(Long.parseLong(words[1]), Long.parseLong(words[2]));
                begun.countDown();
            }
        });
        ended = true;
        begun.countDown();
    }

    /** Record n is due n/rate seconds after the first, however late others are. */
    private int sendPaced(KafkaProducer<byte[], byte[]> producer) {
        int room = cells.capacity() / COLUMNS;
        Schedule current = schedule;
        int first = 0;
        for (int number = 0; number < room; number++) {
            if (schedule != current) {
                current = schedule;
                first = number;
            }
            long due = current.begin() + (number - first) * 1_000_000_000L / current.rate();
            for (long early = due - System.nanoTime(); early > 0 && !ended; early = due - System.nanoTime()) {
                LockSupport.parkNanos(Math.min(LONGEST_WAIT, early));
            }
            if (ended) {
                return number;
            }
            send(producer, number);
        }
        return room;
    }

    private void send(KafkaProducer<byte[], byte[]> producer, int number) {
        byte[] key = keyed ? ("key-" + number % KEYS).getBytes(StandardCharsets.UTF_8) : null;
        String value = String.format(Locale.ROOT, "%-" + valueBytes + "d", number);
        ProducerRecord<byte[], byte[]> record =
            new ProducerRecord<>(topic, key, value.getBytes(StandardCharsets.UTF_8));
        cells.put(number * COLUMNS, System.nanoTime());
        try {
            producer.send(record, (metadata, error) -> report(number, metadata, error));
        } catch (RuntimeException error) {
            report(number, null, error);
        }
    }

    private void report(int number, RecordMetadata metadata, Exception error) {
        cells.put(number * COLUMNS + 1, System.nanoTime());
        cells.put(number * COLUMNS + 2, metadata == null ? 0 : metadata.partition() + 1);
        cells.put(number * COLUMNS + 3, error == null ? DELIVERED : FAILED);
        if (error != null) {
            causes.merge(error.getClass().getSimpleName(), 1, Integer::sum);
        }
    }
}
